"""A run on a cluster in a process of its own, which can be killed: python driver.py ADDRESS OUT FULL STEPS.

While the file FULL exists, the disk is full.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import torch

from posattn import engine, files
from posattn.engine.cluster import ClusterEngine, writer
from posattn.nn import Positional
from posattn.train import Data, Evaluation, Optimiser, Trial

#: Steps of every fleet: some seconds on one core.
STEPS = 400


def trials(steps: int = STEPS) -> list[Trial]:
    """Four fleets of two trials each, on two devices."""
    return [
        Trial(
            task="sum",
            model=Positional(length=5, embed_dim=6, hidden_dim=6 + layers, layers=1),
            data=Data(samples=64, batch=16, options={"length": 5}),
            optimiser=Optimiser(steps=steps, lr=1e-3),
            evaluation=Evaluation(samples=11, sets={"near": {}, "far": {"low": -6.0, "high": 6.0}}, every=steps // 2),
            seed=seed,
        )
        for layers in (1, 2, 3, 4)
        for seed in range(2)
    ]


def fill_the_disk(full: Path) -> None:
    whole = files._replace

    def replace(path: Path, content: bytes, mode: int | None) -> None:
        if full.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(path, content, mode)

    setattr(files, "_replace", replace)  # noqa: B010
    setattr(writer, "WAIT", 0.3)  # noqa: B010


def main(address: str, out: str, full: str, steps: str) -> None:
    torch.set_num_threads(1)
    fill_the_disk(Path(full))
    found: Any = ClusterEngine(address, device="cpu", threads=1, checkpoint_every=0.2)
    engine.run(trials(int(steps)), out=out, reporter=engine.Lines(), engine=found)


if __name__ == "__main__":
    main(*sys.argv[1:])
