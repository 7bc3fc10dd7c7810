"""Where does a training step spend its time on a GPU?

    python benchmarks/steps.py                     every row
    python benchmarks/steps.py rotary mixed        rows whose name begins with one of these words
    python benchmarks/steps.py --kernels 12        and the kernels that take longest

Fleets of the studies' own trials, as their paper presets train them, and of the models of `posattn bench`: milliseconds
of a step for each replica, and the share of each kernel in it (from PyTorch's profiler, over replayed steps).
"""

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

import torch

from posattn import studies
from posattn.bench import MODELS, fleet_step
from posattn.train import Fleet, Trial
from timing import gpu_milliseconds, needs_gpu

STEPS = 20
#: Batches in an epoch: enough that shuffling counts for no more than it does in a study.
BATCHES = 16


def of_study(name: str, task: str, arm: str, x: float | None, seeds: int) -> list[Trial]:
    """The trials of one arm at one place of a study, one for every seed, with few samples."""
    cases = studies.get(name).cases(task, "paper")
    trial = next(case.trial for case in cases if case.arm == arm and case.x == x)
    assert isinstance(trial, Trial)
    lengths = max(1, len(trial.data.lengths or ()))
    data = dataclasses.replace(trial.data, samples=BATCHES * lengths * trial.data.batch)
    return [dataclasses.replace(trial, data=data, seed=seed) for seed in range(seeds)]


def rows() -> Iterator[tuple[str, int, Callable[[], Callable[[], object]]]]:
    """Name, replicas, and what makes the steps."""
    for precision, size in (("tf32", 100), ("float32", 100), ("float32", 15)):
        for name in ("positional", "standard"):
            yield (
                f"{name}, {precision}",
                size,
                partial(fleet_step, MODELS[name], size, 1000, torch.device("cuda"), precision),
            )
    for name, task, arm, x, seeds in (
        ("rotary", "sum", "rotary, input X‖P", None, 15),
        ("mixed-type", "mixed-min", "positional", None, 6),
        ("mixed-type", "mixed-min", "standard", None, 6),
        ("variable-length", "sum", "positional", None, 15),
        ("variable-length", "sum", "standard", None, 15),
        ("sizes", "sum", "positional", 32, 15),
        ("sizes", "sum", "standard", 32, 15),
        ("khop-depth", "khop", "positional", 4, 3),
        ("khop-depth", "khop", "standard", 3, 3),
    ):
        trials = of_study(name, task, arm, x, seeds)
        precision = trials[0].precision
        label = f"{name}, {arm}, {precision}" if x is None else f"{name} {x:g}, {arm}, {precision}"
        yield label, seeds, partial(stepping, trials)


def stepping(trials: list[Trial]) -> Callable[[], object]:
    """A function that takes one step."""
    steps = Fleet(trials, device="cuda").run()
    return lambda: next(steps)


def kernels(step: Callable[[], object], most: int) -> list[str]:
    """The kernels of a step that take longest: milliseconds, calls and name."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    found = sorted(seen.key_averages(), key=lambda one: -one.self_device_time_total)
    every = sum(one.self_device_time_total for one in found) / STEPS / 1e3
    lines = [f"    {every:8.3f} ms in all kernels, {sum(one.count for one in found) / STEPS:.0f} of them"]
    for one in found[:most]:
        took = one.self_device_time_total / STEPS / 1e3
        lines.append(f"    {took:8.3f} ms {one.count / STEPS:6.1f} × {one.key[:110]}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--kernels", type=int, default=0)
    asked = parser.parse_args()
    needs_gpu()
    chosen = [row for row in rows() if not asked.words or row[0].startswith(tuple(asked.words))]
    if not chosen:
        raise SystemExit(f"no row's name begins with {' or '.join(asked.words)}: {'; '.join(row[0] for row in rows())}")
    for name, replicas, made in chosen:
        step = made()
        print(f"{name} × {replicas}: {gpu_milliseconds(step, STEPS) / replicas:.4f} ms", flush=True)
        if asked.kernels:
            print("\n".join(kernels(step, asked.kernels)), flush=True)
        del step
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
