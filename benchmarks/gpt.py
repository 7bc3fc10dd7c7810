"""How much do the GPT-style pair's kernels save, and how much do fleets that train side by side?

    python benchmarks/gpt.py

Three seeds, batch 64, 99 nodes, as in the paper preset of khop-depth, in TF32 on a GPU. First a step with the forward
pass of ordinary operations and with the fused one. Then a step of each of the positional models with 1 … 8 layers: one
fleet after another, and taking turns on streams of their own.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from posattn.nn.fast import gpt
from posattn.studies.positional import khop_protocol as khop
from posattn.train import Fleet
from posattn.train.fleet.passes import FormulaPasses
from timing import gpu_milliseconds

SEEDS, STEPS = 3, 100


def fleet(layers: int, *, positional: bool, form: Callable[..., Tensor] = gpt.fused) -> Iterator[int]:
    """The steps of a fleet that has taken its first ones."""
    trial = khop.trial("khop", "paper", layers=layers, positional=positional, gelu="tanh")
    trial = dataclasses.replace(trial, data=dataclasses.replace(trial.data, samples=6400))
    made = Fleet([dataclasses.replace(trial, seed=seed) for seed in range(SEEDS)], device="cuda")
    made.passes = FormulaPasses(made.parameters, partial(form, made.parameters.architecture), made.task)
    steps = made.run()
    for _ in range(10):
        next(steps)
    return steps


def main() -> None:
    for positional, layers in ((False, 3), (True, 4), (True, 8)):
        plain, fused = (fleet(layers, positional=positional, form=form) for form in (gpt.joined, gpt.fused))
        before, after = (gpu_milliseconds(partial(next, steps), STEPS) for steps in (plain, fused))
        name = "positional" if positional else "standard"
        print(f"{name}, {layers} layers × {SEEDS}: {before:.2f} ms, fused {after:.2f} ms, {before / after:.2f} times")
    streams = [torch.cuda.Stream() for _ in range(8)]
    fleets = []
    for layers, stream in enumerate(streams, start=1):
        with torch.cuda.stream(stream):
            fleets.append(fleet(layers, positional=True))
    alone = sum(gpu_milliseconds(partial(next, one), STEPS) for one in fleets)

    def turn() -> None:
        for one, stream in zip(fleets, streams, strict=True):
            with torch.cuda.stream(stream):
                next(one)

    beside = gpu_milliseconds(turn, STEPS)
    print(f"8 fleets: one after another {alone:.2f} ms, side by side {beside:.2f} ms, {alone / beside:.2f} times")


if __name__ == "__main__":
    main()
