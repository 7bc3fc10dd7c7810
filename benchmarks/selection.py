"""How much faster is a selector in a fleet of ten than alone, in the loop that one writes first?

    python benchmarks/selection.py [cpu|cuda]

One step of SGD at the paper's sizes: T = 200 tokens, q = 3, d = 5, d_e = 170, batch 256. The plain loop builds Z, the
whole of W and the encodings as numbers, and solves for the query with torch's own solver; its batch of tokens and
subsets lies ready, fixed encodings too, while stochastic ones are drawn in every step. The fleet draws all of its data.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from posattn import tasks
from posattn.nn import Selector
from posattn.train import Data, Fleet, Optimiser, Trial

FLEET, BATCH, DIM, WIDTH, TOKENS = 10, 256, 5, 170, 200


def plain_step(encoding: str, device: torch.device) -> Callable[[], object]:
    """A step of one model, eager."""
    width = TOKENS if encoding == "one-hot" else WIDTH
    w = torch.zeros(DIM + width, DIM + width, device=device, requires_grad=True)
    v = torch.zeros(DIM, DIM + width, device=device, requires_grad=True)
    optimiser = torch.optim.SGD([w, v], lr=1.0)
    (x, subset, _), target = tasks.get("selection").sample(BATCH, generator=torch.Generator(device).manual_seed(0))

    def signs(*lead: int) -> Tensor:
        return torch.randint(0, 2, (*lead, TOKENS, width), device=device).mul_(2).sub_(1).float() / math.sqrt(width)

    fixed = torch.eye(TOKENS, device=device) if encoding == "one-hot" else signs()

    def step() -> None:
        e = signs(BATCH) if encoding == "stochastic" else fixed.expand(BATCH, -1, -1)
        chosen = e.gather(1, subset.unsqueeze(-1).expand(-1, -1, width))
        coefficients = torch.linalg.solve(chosen @ chosen.mT, torch.ones(BATCH, 3, 1, device=device))
        query = torch.cat([torch.zeros(BATCH, DIM, device=device), (chosen.mT @ coefficients).squeeze(-1)], dim=1)
        z = torch.cat([x, e], dim=2)
        weights = (z @ (query @ w.T).unsqueeze(-1)).squeeze(-1).softmax(-1)
        answer = (weights.unsqueeze(1) @ z).squeeze(1) @ v.T
        loss = 0.5 * (answer - target).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def fleet_step(encoding: str, device: torch.device) -> Callable[[], object]:
    """A step of ten models together."""
    trials = [
        Trial(
            task="selection",
            model=Selector(encoding=encoding),
            data=Data(samples=50 * BATCH, batch=BATCH, fresh=True),
            optimiser=Optimiser(name="sgd", lr=1.0, steps=10**9),
            seed=seed,
        )
        for seed in range(FLEET)
    ]
    steps = Fleet(trials, device=device).run()
    return lambda: next(steps)


def milliseconds(step: Callable[[], object], device: torch.device, steps: int) -> float:
    """The median over five blocks of steps, after one."""

    def block() -> float:
        began = time.perf_counter()
        for _ in range(steps):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return 1e3 * (time.perf_counter() - began) / steps

    block()
    return statistics.median(block() for _ in range(5))


def main() -> None:
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    steps = 200 if device.type == "cuda" else 50
    for encoding in ("one-hot", "near-orthogonal", "stochastic"):
        plain = milliseconds(plain_step(encoding, device), device, steps // 5)
        fleet = milliseconds(fleet_step(encoding, device), device, steps)
        each = fleet / FLEET
        print(f"{encoding}: plain {plain:.3f} ms, fleet {fleet:.3f} ms, {each:.4f} a replica, {plain / each:.1f} times")


if __name__ == "__main__":
    main()
