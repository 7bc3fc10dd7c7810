"""Do the paper's mixed-type models read which labels they are asked for?

    python benchmarks/mixed_labels.py                what a model loses that does not, beside the published losses
    python benchmarks/mixed_labels.py --steps 2000   positional models, trained on [0, 5] and on [0, 2]

A question names four of eight labels. A model that reads the numbers and the operation but not these names can do no
better than the mean of the answers to all 70 questions, and loses their variance (`blind`). After training, every
question is asked once more about the other four labels: a model that reads the names then answers something else.
"""

import argparse
import json
import statistics
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path

import torch

import posattn
from posattn import engine, tasks
from posattn.published import NAMES, losses, table
from posattn.studies.positional.mixed_type_protocol import MODELS, PROTOCOLS, TASKS
from posattn.tasks.mixed import IDS, LABELS, LIST_CHARACTERS, QUERIED, QUERIED_AT, MixedInputs
from posattn.train import Evaluation, TestSet, Trial
from posattn.train.random_streams import stream

RANGES, SCALES = (5.0, 2.0), (1, 2, 5, 10)


def blind(task: str, high: float) -> float:
    """The expected variance of the answer over all questions, for values from sub-intervals of [0, high].

    The mean square of a sub-interval's width is high² / 6. Of eight uniform values in [0, 1], the products of the i-th
    and the j-th smallest have the mean i (j + 1) / 90 (i ≤ j), and the j-th is the least of the four that are asked for
    with a probability of C(8 − j, 3) / 70. The greatest is the least, mirrored.
    """
    if task == "mixed-sum":  # four of eight without replacement: 4 · (1 − 4/8) · 1/12
        variance = Fraction(1, 6)
    else:
        least = {j: Fraction(comb(LABELS - j, QUERIED - 1), comb(LABELS, QUERIED)) for j in range(1, LABELS + 1)}
        square = sum(p * j * (j + 1) for j, p in least.items())
        mean = sum(p * q * min(i, j) * (max(i, j) + 1) for i, p in least.items() for j, q in least.items())
        variance = (square - mean) / ((LABELS + 1) * (LABELS + 2))
    return float(variance) * high**2 / 6


def trained(task: str, arm: str) -> list[float]:
    """The published training losses, one per run."""
    rows = table("positional.csv").query("experiment == 'mixed_type_scale' and split == 'train'")
    return rows[(rows["task"] == NAMES[task]) & (rows["arch"] == arm)]["loss"].tolist()


def compare() -> None:
    """What a model that does not read the names loses, and the published medians."""
    for task in TASKS:
        for high in RANGES:
            shown = "  ".join(f"c={c} {blind(task, high * c):.3g}" for c in SCALES)
            print(f"{task}, names unread, [0, {high:g}c]: {shown}")
        for arm in ("positional", "standard"):
            found = {c: losses("mixed_type_scale", task, arm, scale=c) for c in (None, *SCALES)}
            shown = "  ".join(f"c={c} {statistics.median(runs):.3g}" for c, runs in found.items() if c)
            begin = f"training {statistics.median(trained(task, arm)):.3g}  "
            print(f"{task}, published, {arm}: {begin}validation {statistics.median(found[None]):.3g}  {shown}")


def asked_otherwise(inputs: MixedInputs) -> MixedInputs:
    """The same lists and numbers, and questions that name the other four labels."""
    characters = inputs.characters.clone()
    asked = characters[:, [LIST_CHARACTERS + place for place in QUERIED_AT]]
    for row, named in zip(characters, asked.tolist(), strict=True):
        listed = {code for code in row[:LIST_CHARACTERS].tolist() if code < IDS}
        row[LIST_CHARACTERS:][QUERIED_AT] = torch.tensor(sorted(listed - set(named)))
    return MixedInputs(characters, inputs.numbers)


def read_share(trial: Trial, weights: Path, high: float) -> float:
    """By how much the answer moves when the other labels are asked for, as a part of how much it should (RMS)."""
    task, model = tasks.get(trial.task), posattn.load(weights)
    inputs, answers = task.sample(1000, high=high, generator=stream(0, "questions"))
    others = asked_otherwise(inputs)
    with torch.no_grad():
        moved = model(*others) - model(*inputs)
    return float((moved.square().mean() / (task.target(others) - answers).square().mean()).sqrt())


def trial(task: str, high: float, steps: int) -> Trial:
    """The paper's positional model, in fewer steps with a cosine; tested on seen and on unseen labels."""
    found = PROTOCOLS["paper"].trial(task, MODELS["positional"])
    sets = [TestSet("validation", {"low": 0.0, "high": high})]
    sets += [TestSet(f"c={c}", {"low": 0.0, "high": high * c, "held_out": True}) for c in SCALES]
    return replace(
        found,
        data=replace(found.data, batch=500, options={"low": 0.0, "high": high}),
        optimiser=replace(found.optimiser, steps=steps, lr=1e-3, schedule="cosine"),
        evaluation=Evaluation(samples=10_000, sets=sets),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="train models for so many steps")
    parser.add_argument("--out", type=Path, default=Path("runs", "mixed-labels"), help="the store to keep them in")
    asked = parser.parse_args()
    compare()
    if asked.steps is None:
        return
    if asked.steps < 1:
        parser.error(f"--steps {asked.steps}: train for at least one step.")
    trials = {(task, high): trial(task, high, asked.steps) for high in RANGES for task in TASKS}
    try:
        store = engine.run([*trials.values()], out=asked.out)
    except engine.Interrupted as stopped:
        raise SystemExit(str(stopped)) from None
    for (task, high), one in trials.items():
        scores = json.loads((store.path(one) / "metrics.json").read_text())["scores"]
        ended = [score for score in scores if score["loss"] is not None]  # no epoch has ended: no training loss
        told = "  ".join(f"{score['set']} {score['loss']:.3g}" for score in ended)
        share = read_share(one, store.path(one) / "weights.safetensors", high)
        print(f"{task}, trained on [0, {high:g}]: {told}; answers move by {share:.3f} of what they should")


if __name__ == "__main__":
    main()
