"""Foreign modules in a fleet, against a plain loop and against `torch.compile` of `vmap(grad)`, per replica and step.

    python benchmarks/any_module.py --device cuda --fleet 100 --compiled
    python benchmarks/any_module.py --device cpu --fleet 10 --batch 16 --batch 64 --batch 256 --batch 1000

A fleet does all that a training run does: it gathers its batch, keeps a schedule and looks for divergence. The plain
loop and the compiled function have their batch on the device, and `torch.optim.Adam`. Every figure includes the
optimiser. "folded" is the compiled function with attention as a formula, which PyTorch cannot map otherwise.
"""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from posattn import bench, tasks
from posattn.nn import AnyModule
from posattn.train import Data, Fleet, Optimiser, Trial
from posattn.train.fleet.data import draw

sys.path.insert(0, str(Path(__file__).parent))

#: By module: the shape of one input, the shape of one target, and how many classes either has (0: numbers).
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int]] = {
    "mlp": ((16,), (1,), 0, 0),
    "Encoder": ((16, 1), (16, 1), 0, 0),
    "GRU": ((16, 1), (16, 1), 0, 0),
    "ConvNet": ((3, 16, 16), (), 0, 10),
    "CharGPT": ((32,), (32,), 65, 65),
}


@dataclass(frozen=True)
class Noise(tasks.Task):
    """Random inputs and random answers: what is timed, not learned."""

    name: str
    summary: str = "random inputs and answers"

    @property
    def classes(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return SHAPES[self.name][3] or None

    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        into, out, read, written = SHAPES[self.name]
        return _noise((count, *into), read, generator), _noise((count, *out), written, generator)

    def target(self, inputs: Tensor) -> Tensor:
        raise NotImplementedError  # random


def _noise(shape: tuple[int, ...], classes: int, generator: torch.Generator) -> Tensor:
    if classes:
        return torch.randint(classes, shape, generator=generator, device=generator.device)
    return torch.randn(shape, generator=generator, device=generator.device)


def trial(name: str, batch: int, precision: str, seed: int) -> Trial:
    return Trial(
        task=name,
        model=AnyModule(f"foreign_modules:{name}"),
        data=Data(samples=20 * batch, batch=batch),
        optimiser=Optimiser(steps=10**9),
        precision=precision,
        seed=seed,
    )


def batch_of(name: str, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    generator = torch.Generator(device).manual_seed(0)
    x, y = draw(tasks.get(name), size, {}, generator, torch.float32)
    return x, y


def plain_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """The same as the task's, as one writes it for one model."""
    if target.is_floating_point():
        return F.mse_loss(prediction, target)
    return F.cross_entropy(prediction.flatten(0, -2), target.flatten())


def plain_step(name: str, batch: int, device: torch.device) -> Callable[[], None]:
    """The loop that one writes first."""
    module = AnyModule(f"foreign_modules:{name}").module().to(device).train()
    x, y = batch_of(name, batch, device)
    optimiser = torch.optim.Adam(module.parameters(), lr=5e-4)

    def step() -> None:
        optimiser.zero_grad()
        plain_loss(module(x), y).backward()
        optimiser.step()

    return step


def compiled_step(
    name: str, size: int, batch: int, device: torch.device, mode: str, *, folded: bool
) -> Callable[[], None]:
    """What one writes next: `torch.compile(vmap(grad))` over stacked weights, and Adam on those."""
    module = AnyModule(f"foreign_modules:{name}").module().to(device).train()
    stacked = {key: held.detach().expand(size, *held.shape).clone() for key, held in module.named_parameters()}
    x, y = (held.unflatten(0, (size, batch)) for held in batch_of(name, size * batch, device))
    attention = partial(sdpa_kernel, SDPBackend.MATH) if folded else nullcontext

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        with attention():
            return plain_loss(functional_call(module, weights, (x,)), y)

    learn = torch.compile(vmap(grad_and_value(loss), randomness="different"), mode=mode)
    optimiser = torch.optim.Adam(list(stacked.values()), lr=5e-4, fused=True)

    def step() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        grads, _ = learn(stacked, x, y)
        for key, held in stacked.items():
            held.grad = grads[key].contiguous()  # as the fused optimiser needs it
        optimiser.step()

    return step


def fleet_step(
    name: str,
    size: int,
    batch: int,
    device: torch.device,
    precision: str,
    *,
    together: bool = True,
    compiled: bool = True,
) -> Callable[[], Any]:
    trials = [trial(name, batch, precision, seed) for seed in range(size)]
    fleet = Fleet(trials, device=device, together=together, compiled=compiled)
    steps = fleet.run()
    return lambda: next(steps)


def measure(name: str, batch: int, asked: argparse.Namespace) -> dict[str, Any]:
    device, size = torch.device(asked.device), asked.fleet
    if device.type == "cuda":
        allowed = "tf32" if asked.precision == "tf32" else "ieee"
        torch.backends.cuda.matmul.fp32_precision = allowed
        cudnn: Any = torch.backends.cudnn
        cudnn.conv.fp32_precision = cudnn.rnn.fp32_precision = allowed
    found: dict[str, Any] = {"module": name, "batch": batch, "fleet": size, "precision": asked.precision}
    found["plain"] = bench.milliseconds(plain_step(name, batch, device), device)
    forms: dict[str, Callable[[], Callable[[], Any]]] = {
        "fleet": partial(fleet_step, name, size, batch, device, asked.precision)
    }
    if device.type == "cuda":
        forms["fleet, not compiled"] = partial(fleet_step, name, size, batch, device, asked.precision, compiled=False)
    if asked.off:
        forms["off"] = partial(fleet_step, name, size, batch, device, asked.precision, together=False)
    if asked.compiled:
        kinds = [False, True] if name in ("Encoder", "CharGPT") else [False]
        for folded in kinds:
            for mode in ("default", "reduce-overhead"):
                key = f"{mode}{' folded' if folded else ''}"
                forms[key] = partial(compiled_step, name, size, batch, device, mode, folded=folded)
    for key, make in forms.items():
        torch._dynamo.reset()
        found[key] = bench.milliseconds(make(), device) / size
        if device.type == "cuda":
            torch.cuda.empty_cache()
        print(f"{name} batch {batch}: {key} {found[key]:.5f} ms, plain {found['plain'] / found[key]:.2f} times that")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fleet", type=int, default=10)
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--module", action="append", choices=SHAPES)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--off", action="store_true")
    parser.add_argument("--json")
    asked = parser.parse_args()
    for name in SHAPES:
        tasks.register(Noise(name))
    found = [measure(name, batch, asked) for name in asked.module or SHAPES for batch in asked.batch or [64]]
    if asked.json:
        Path(asked.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
