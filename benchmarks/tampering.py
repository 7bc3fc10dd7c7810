"""Does a proof notice when one stored number of a compiled model is changed?

    python benchmarks/tampering.py --changes 1000

Ten models, each changed in one number at a time: the encoding, constants, Q, K and their biases, V, O, the MLP, encoder
and decoder alike. Numbers other than 0 move by one unit in the last place up to 100 %, zeros to ±1e-7 … 1. Every change
is written to a file of its own, without the old certificate, and given to the prover and to the checker. What one of
them accepts is tried: heads that are read have to select as before, and all outputs have to stay within the proved
bound of the program. Exit code 1 where that fails.

A thousand changes (500 with --seed 1, 250 each with seeds 0 and 2): 505 refused by both, 86 by the checker alone, none
by the prover alone, 409 accepted by both and harmless, none harmful. 500 changes took 13 minutes on a core with other
work on it; a question that z3 does not answer costs 20 s.
"""

import argparse
import contextlib
import io
import math
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.progress import track

from posattn.compile import Compiled, compile, library, load
from posattn.compile.interpreter import run
from posattn.compile.programs.routing import permute
from posattn.compile.proof import checker
from posattn.compile.proof.layer_weights import layer_weights
from posattn.compile.verify_inputs import adversarial_inputs, exhaustive_inputs, random_inputs
from posattn.nn import model_of

LENGTHS = {
    "cumsum": 8, "cummin": 7, "sort": 8, "argsort": 5, "max-subarray": 6, "reduce": 8, "permute": 7, "broadcast": 9,
    "fetch": 3, "cummedian": 3,
}  # fmt: skip
#: By how much a number that is not 0 moves; 0: by one unit in the last place.
SHARES = (0.0, 1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0)
VERDICTS = ("refused by both", "by the prover alone", "by the checker alone", "harmless", "HARMFUL")
#: Random inputs on which a model that was accepted is tried, besides adversarial and exhaustive ones.
SAMPLES = 256
#: How long each step of a proof may take.
SECONDS = 20.0


@dataclass(frozen=True)
class Change:
    """One stored number and what it becomes."""

    tensor: str
    place: tuple[int, ...]
    before: float
    after: float

    def __str__(self) -> str:
        return f"{self.tensor}{list(self.place)}: {self.before!r} → {self.after!r}"


def ten_models(seed: int = 0) -> dict[str, Compiled]:
    """The models to change; permute has random destinations."""
    order = np.random.default_rng(seed).permutation(LENGTHS["permute"]).tolist()
    programs = {name: library.get(name, length) for name, length in LENGTHS.items()}
    programs["permute"] = permute(len(order), order, route="direct")
    return {name: compile(program) for name, program in programs.items()}


def drawn_change(compiled: Compiled, rng: np.random.Generator) -> Change:
    """Any tensor, then a number of it that is not 0 or one that is, with equal chances where there are both."""
    weights = {name: held for name, held in compiled.model.weights().items() if held.numel()}
    name = rng.choice(sorted(weights))
    held = weights[name].detach().numpy()
    sides = [np.argwhere(held != 0), np.argwhere(held == 0)]
    places = rng.permutation([side for side in range(2) if len(sides[side])])
    found = sides[places[0]]
    place = tuple(map(int, found[rng.integers(len(found))]))
    return Change(name, place, float(held[place]), float(_moved(held[place], rng)))


def _moved(number: np.floating, rng: np.random.Generator) -> np.floating:
    sign = rng.choice([-1.0, 1.0])
    if number == 0:
        return type(number)(sign * 10.0 ** rng.uniform(-7, 0))
    share = rng.choice(SHARES)
    near = type(number)(number * (1 + sign * share))
    return near if near != number else np.nextafter(number, type(number)(sign * math.inf))


def changed(compiled: Compiled, change: Change) -> Compiled:
    """The same model with one number changed, and without certificate and proof."""
    weights = {name: held.detach().clone() for name, held in compiled.model.weights().items()}
    weights[change.tensor][change.place] = change.after
    return replace(compiled, model=model_of(compiled.model.architecture, weights), certificate=None, proof=None)


def verdict(compiled: Compiled, change: Change, folder: Path) -> str:
    """One of `VERDICTS`, from the file that holds the changed model."""
    path = folder / "changed.safetensors"
    changed(compiled, change).save(path)
    read = load(path)
    proof = read.prove(seconds=SECONDS)
    with contextlib.redirect_stdout(io.StringIO()):
        checked = checker.main(str(path)) == 0
    if (proof.holds or checked) and not harmless(compiled, read, proof.bound):
        return VERDICTS[4]
    return VERDICTS[3 if proof.holds and checked else 2 if proof.holds else 1 if checked else 0]


@torch.no_grad()
def harmless(original: Compiled, other: Compiled, bound: float | None) -> bool:
    """Whether heads that are read select as before, and outputs stay within the bound of the program on many inputs."""
    program, domain, rng = original.program, original.domain, np.random.default_rng(0)
    used = [layer.used for layer in layer_weights(original.model.weights(), original.model.architecture.heads)]
    before, after = original.model.attention(), other.model.attention()
    if not all(torch.equal(before[k, h], after[k, h]) for k, heads in enumerate(used) for h in heads):
        return False
    parts = (
        adversarial_inputs(program, domain, rng),
        exhaustive_inputs(program, domain),
        random_inputs(program, domain, SAMPLES, rng),
    )
    x = np.concatenate(parts).astype(np.float32)
    found = other.model(torch.from_numpy(x)).numpy()
    if np.array_equal(found, original.model(torch.from_numpy(x)).numpy()):
        return True
    errors = np.abs(found.astype(np.longdouble) - run(program, x.astype(np.longdouble)))
    return bound is not None and bool((errors <= bound).all())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=1000, help="how many numbers to change, over all ten models")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rng, models = np.random.default_rng(asked.seed), ten_models(asked.seed)
    counts = {name: Counter() for name in models}
    with tempfile.TemporaryDirectory() as folder:
        for number in track(range(asked.changes), description="changes"):
            name = list(models)[number % len(models)]
            change = drawn_change(models[name], rng)
            found = verdict(models[name], change, Path(folder))
            counts[name][found] += 1
            if found == VERDICTS[4]:
                print(f"{name}: {change}")
    print(f"{'':14}" + "".join(f"{head:>22}" for head in VERDICTS))
    for name, count in {**counts, "all": sum(counts.values(), Counter())}.items():
        print(f"{name:14}" + "".join(f"{count[head]:22}" for head in VERDICTS))
    return int(any(count[VERDICTS[4]] for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
