"""Run what the record still lacks, in its order, for so many minutes.

    python benchmarks/record.py --minutes 9 --out record.tar.gz          on a GPU
    python benchmarks/record.py --list                                   what would be run, and for how long

The studies of `remaining.py`, part by part: all models of one place of a study together. A part whose trials are in a
store under docs/results, or in the archive, is done; one that would not be done in time is left for later, and the next
one that would be is taken. When none would, the first goes on from its checkpoint until the time is over. After every
part the archive is written anew: trials, figures and checkpoints, without the weights of what is done.
"""

import argparse
import signal
import tarfile
import tempfile
import threading
import time
from pathlib import Path

from posattn import engine
from posattn.train import Trial
from remaining import RESULTS, done, parts, seconds

#: Capturing graphs, evaluating and writing, beside the steps themselves.
SLACK = 1.15
#: Seconds for which a part is begun that will not be done.
WORTH_BEGINNING = 60.0


def pack(folder: Path, out: Path) -> None:
    """A store as one archive, written whole or not at all."""
    part = out.with_suffix(".part")
    with tarfile.open(part, "w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "weights.safetensors":
                archive.add(path, path.relative_to(folder))
    part.replace(out)


def run(name: str, trials: list[Trial], folder: Path, asked: argparse.Namespace, end: float) -> None:
    """Run a part until it is done or the time is over, and say how long it took beside what was predicted."""
    predicted, began = SLACK * sum(map(seconds, trials)), time.monotonic()
    print(f"{name}: {len(trials)} trials, about {predicted / 60:.1f} min", flush=True)
    timer = threading.Timer(end - began, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        engine.run(trials, out=folder, device=asked.device)
        print(f"{name}: done in {(time.monotonic() - began) / 60:.1f} min", flush=True)
    except engine.Interrupted as stopped:
        print(f"{name}: {stopped}", flush=True)
    finally:
        timer.cancel()
        pack(folder, asked.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--out", type=Path, default=Path("record.tar.gz"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    end = time.monotonic() + 60 * asked.minutes
    stores = [*RESULTS.rglob("store.tar.*"), *([asked.out] if asked.out.exists() else [])]
    held = done(stores)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if asked.out.exists():
            with tarfile.open(asked.out) as archive:
                archive.extractall(folder, filter="data")
        missing = {name + at: [trial for trial in trials if trial.id not in held] for name, at, trials in parts()}
        late = []
        for name, trials in missing.items():
            needed = SLACK * sum(map(seconds, trials))
            if asked.list and trials:
                print(f"{name}: {len(trials)} trials, about {needed / 60:.1f} min")
            elif trials and needed > end - time.monotonic():
                late.append(name)
            elif trials:
                run(name, trials, folder, asked, end)
        if late and end - time.monotonic() > WORTH_BEGINNING:
            run(late[0], missing[late[0]], folder, asked, end)


if __name__ == "__main__":
    main()
