"""Run what the record still lacks, in its order, for so many minutes.

    python benchmarks/record.py --minutes 9 --out record.tar.gz                      on a GPU: what can be done in time
    python benchmarks/record.py "khop-depth, khop-16" --minutes 9                    parts by name, or how names begin
    python benchmarks/record.py --list                                               what there is, and for how long

A part is one place of a study, with the models that `remaining.py` lists together. It is done when a store under
docs/results, or the folder, has its trials. All parts that fit into the time run side by side, since a fleet by itself
leaves some of a GPU idle; where none fits, the first one is begun. At the end the trials that are done are packed with
the figures of their studies, without their weights. What is not goes on from its checkpoint in the folder when the
command is given again, with other parts too.
"""

import argparse
import signal
import tarfile
import threading
import time
from pathlib import Path

from posattn import engine, report
from posattn.errors import PosattnError
from posattn.studies.core import record, results
from remaining import RESULTS, SEEDS, Part, done, parts, seconds

#: Capturing graphs, evaluating and writing, beside the steps themselves.
SLACK = 1.15


def pack(folder: Path, out: Path) -> int:
    """What is done, as one archive, written whole or not at all: trials, records and figures; how many trials."""
    part, ended = out.with_suffix(".part"), sorted(folder.glob("*/metrics.json"))
    kept = [path.with_name(name) for path in ended for name in ("trial.json", "metrics.json")]
    kept += [folder / "store.json", *folder.glob("studies/*.json"), *folder.glob("reports/*/figures.csv")]
    with tarfile.open(part, "w:gz") as archive:
        for path in kept:
            if path.exists():
                archive.add(path, path.relative_to(folder))
    part.replace(out)
    return len(ended)


def write_reports(chosen: list[Part], folder: Path) -> None:
    """Say in the store what was asked for, and write a report of every study that has something to show.

    Some figures are those of the weights, which are not packed.
    """
    store = engine.Store(folder)
    for part in chosen:
        seeds = dict.fromkeys(sorted(part.arms), SEEDS)
        tasks = () if part.task is None else (part.task,)
        asked = record.Record(study=part.study, preset="paper", tasks=tasks, seeds=seeds)
        record.write(store, asked.joined(record.read(store, part.study)))
    held = {path.parent.name for path in folder.glob("*/metrics.json")}
    for study in {part.study for part in chosen if any(trial.id in held for trial in part.trials)}:
        report.write(results.results(study, folder), folder)


def choose(asked: argparse.Namespace, held: set[str], left: float) -> list[Part]:
    """The parts to run, with the trials that are not held."""
    missing = [part._replace(trials=[trial for trial in part.trials if trial.id not in held]) for part in parts()]
    missing = [part for part in missing if part.trials]
    if asked.names:
        whole = {part.name for part in missing} & set(asked.names)
        begun = tuple(name for name in asked.names if name not in whole)
        return [part for part in missing if part.name in whole or part.name.startswith(begun)]
    found: list[Part] = []
    for part in missing:
        needed = SLACK * sum(map(seconds, part.trials))
        if needed <= left:
            found.append(part)
            left -= needed
    return found or missing[:1]


def run(chosen: list[Part], asked: argparse.Namespace, folder: Path, end: float) -> None:
    """Run parts until they are done or the time is over, and say how long it took beside what was predicted."""
    began, trials = time.monotonic(), {trial.id: trial for part in chosen for trial in part.trials}
    predicted = sum(map(seconds, trials.values()))
    print(f"{'; '.join(part.name for part in chosen)}: {len(trials)} trials, {predicted:.0f} s predicted", flush=True)
    timer = threading.Timer(max(0.0, end - began), signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        engine.run([*trials.values()], out=folder, device=asked.device)
    except engine.Interrupted as stopped:
        print(stopped, flush=True)
    except KeyboardInterrupt:
        print("The time was over before the first step.", flush=True)
    except PosattnError as error:
        raise SystemExit(str(error)) from None
    finally:
        timer.cancel()
        took = time.monotonic() - began
        try:
            write_reports(chosen, folder)
        finally:
            print(f"{took:.0f} s; {pack(folder, asked.out)} trials packed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--out", type=Path, default=Path("record.tar.gz"))
    parser.add_argument("--folder", type=Path, default=Path("runs", "record"), help="the store to go on with")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    if not asked.out.parent.is_dir():
        parser.error(f"--out {asked.out}: there is no folder {asked.out.parent}. Make it first.")
    end = time.monotonic() + 60 * asked.minutes
    held = done(RESULTS.rglob("store.tar.*"))
    held |= {path.parent.name for path in asked.folder.glob("*/metrics.json")}
    chosen = choose(asked, held, float("inf") if asked.list else end - time.monotonic())
    if not chosen:
        raise SystemExit("nothing is left to run of that: --list without names says what there is.")
    if not asked.list:
        run(chosen, asked, asked.folder, end)
        return
    for part in chosen:
        minutes = SLACK * sum(map(seconds, part.trials)) / 60
        print(f"{part.name}: {len(part.trials)} trials, about {minutes:.1f} min")


if __name__ == "__main__":
    main()
