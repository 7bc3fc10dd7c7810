"""Runs that are killed with SIGKILL and started again, in a process of their own: `python killed.py FOLDER`.

The process imports everything once and forks for each run, so that a kill costs milliseconds. It leaves in FOLDER

    whole/          a run that nobody killed
    random/         one that was killed at random moments until it came to its end
    writes/1, 2, …  runs of one fleet and few steps, each killed at its first, second, … change of the disk, then ended
    short/          the same, not killed

and prints, as JSON, how often each of them was killed.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posattn import engine
from posattn.nn import Positional
from posattn.train import Data, Evaluation, Optimiser, Trial


def trials(steps: int) -> list[Trial]:
    """Three that differ in all that may differ, and one of another shape with variable lengths."""
    far = {"length": 5, "low": -6.0, "high": 6.0, "avoid": (-2.0, 2.0)}
    found = []
    for seed, task in enumerate(["sum", "sort", "min", "sum"]):
        lengths = (2, 5) if seed == 3 else ()
        found.append(
            Trial(
                task=task,
                model=Positional(length=5, embed_dim=6, hidden_dim=7, layers=2, bias=seed != 1),
                optimiser=Optimiser(steps=steps, lr=1e-2 / (1 + seed), schedule="plateau", patience=0),
                data=Data(samples=30 + 10 * seed, batch=10, options={} if lengths else {"length": 5}, lengths=lengths),
                evaluation=Evaluation(samples=20, sets={"far": far}, every=max(1, steps // 5)),
                seed=seed,
            )
        )
    return found


LONG, SHORT = trials(150), trials(2)[:3]


def forked(work: Callable[[], Any]) -> int:
    """Start a copy of this process that does the work and ends with 0."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def killed(pid: int) -> bool:
    """Wait for a copy; whether it was killed. It may end in no third way."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def at_random(folder: Path, seconds: float) -> int:
    """Kill the long run, which takes so many seconds, at random moments until it ends; how often it was killed."""
    moments, count = random.Random(0), 0
    while True:
        pid = forked(lambda: engine.run(LONG, out=folder, device="cpu", checkpoint_every=0.01))
        time.sleep(seconds * moments.uniform(0.1, 0.3 + 0.05 * count))
        os.kill(pid, signal.SIGKILL)
        if not killed(pid):
            return count
        count += 1


def at_change(number: int, folder: Path) -> bool:
    """Kill the short run at a change of the disk, counted from 1; whether there were so many."""

    def work() -> None:
        left = [number]

        def counting(function: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **options: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **options)

            return counted

        os.fsync = counting(os.fsync)
        shutil.rmtree = counting(shutil.rmtree)
        Path.mkdir = counting(Path.mkdir)
        Path.replace = counting(Path.replace)
        Path.unlink = counting(Path.unlink)
        engine.run(SHORT, out=folder, device="cpu", checkpoint_every=1e-9)

    return killed(forked(work))


def main(folder: Path) -> None:
    assert not killed(forked(lambda: engine.run(SHORT, out=folder / "short", device="cpu")))
    began = time.monotonic()
    assert not killed(forked(lambda: engine.run(LONG, out=folder / "whole", device="cpu")))
    counts = {"random": at_random(folder / "random", time.monotonic() - began), "writes": 0}
    while at_change(counts["writes"] + 1, folder / "writes" / str(counts["writes"] + 1)):
        counts["writes"] += 1
        again = folder / "writes" / str(counts["writes"])
        assert not killed(forked(lambda again=again: engine.run(SHORT, out=again, device="cpu", checkpoint_every=1e-9)))
    print(json.dumps(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
