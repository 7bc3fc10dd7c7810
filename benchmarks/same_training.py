"""Take over figures of models that another study has trained and tested on more.

    python benchmarks/same_training.py sizes FOLDER docs/results/ood-scale/store.tar.gz …

Studies overlap: 30,000 samples in sample-complexity, and length 8 in sizes, are the models of ood-scale, and are tested
on two of its eleven sets. Trials of the paper's models, three seeds, that the store in FOLDER lacks get the figures of
a trial in one of the archives, where the two differ in nothing but test sets that are left out. The device, the seconds
and the version stay those of the run.
"""

import argparse
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from posattn import studies
from posattn.engine import Store
from posattn.files import make_folder, write_json, write_whole
from posattn.train import Evaluation, Trial, identity
from remaining import SEEDS

MODELS = ("standard", "positional")


def held(archive: Path) -> Iterator[tuple[Trial, dict[str, Any]]]:
    """Every trial of an archive with its metrics."""
    with tarfile.open(archive) as opened:
        files = {entry.name: file.read() for entry in opened if (file := opened.extractfile(entry)) is not None}
    for name, metrics in files.items():
        if name.endswith("metrics.json"):
            trial = identity.read(files[name.removesuffix("metrics.json") + "trial.json"])
            if isinstance(trial, Trial):
                yield trial, json.loads(metrics)


def training(trial: Trial) -> str:
    """What was trained, whatever it was tested on."""
    return replace(trial, evaluation=Evaluation()).id


def covers(tested: Trial, trial: Trial) -> bool:
    """Whether the sets of `trial` are among those of `tested`, sample by sample: each has a stream named after it."""
    sets = {one.name: one for one in tested.test_sets}
    alike = replace(tested.evaluation, sets=trial.evaluation.sets) == trial.evaluation
    return alike and all(sets.get(one.name) == one for one in trial.test_sets)


def figures_of(trial: Trial, metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics without the sets that a trial does not have."""
    names = {"train", *(one.name for one in trial.test_sets)}
    return metrics | {"scores": [score for score in metrics["scores"] if score["set"] in names]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study")
    parser.add_argument("folder", type=Path)
    parser.add_argument("archives", type=Path, nargs="+")
    asked = parser.parse_args()
    study, store = studies.get(asked.study), Store(asked.folder)
    store.prepare()
    cases = [case for task in study.tasks for case in study.cases(task, "paper") if case.arm in MODELS]
    wanted = [trial for case in cases for trial in map(case.seeded, range(SEEDS)) if isinstance(trial, Trial)]
    missing = {training(trial): trial for trial in wanted if not store.has(trial)}
    for archive in asked.archives:
        for tested, metrics in held(archive):
            trial = missing.get(training(tested))
            if trial is not None and covers(tested, trial):
                folder = store.path(trial)
                make_folder(folder)
                write_whole(folder / "trial.json", trial.to_json().encode())
                write_json(folder / "metrics.json", figures_of(trial, metrics))
                print(f"{trial.title}, seed {trial.seed}: {trial.id} from {tested.id} in {archive}")
                del missing[training(tested)]


if __name__ == "__main__":
    main()
