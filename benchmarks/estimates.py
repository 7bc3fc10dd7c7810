"""How close are estimates of a replica's memory to what it takes on a GPU?

    PYTHONPATH=src python3 benchmarks/estimates.py

Prints a row for every kind of model, in MiB: what `posattn.train.fleet.estimate` says of a trial by a paper's protocol,
what a fleet of one takes at its peak, and their ratio. Needs CUDA and no extra. Kinds that it does not reach within 45
seconds are named.
"""

import time

import torch

from posattn import studies
from posattn.train import Trial
from posattn.train.fleet.estimate import estimated_bytes
from posattn.train.fleet.memory import bytes_per_replica
from timing import needs_gpu

MIB = 2**20
SECONDS = 45
STUDIES = ("ood-scale", "khop-depth", "sts-length", "mixed-type", "length-scale")  # the longest inputs last


def trials() -> dict[str, Trial]:
    """By kind of model, the trial that is estimated to take most."""
    found: dict[str, Trial] = {}
    for name in STUDIES:
        study = studies.get(name)
        for case in study.cases_of(study.tasks[0], "paper"):
            if isinstance(case.trial, Trial):
                before = found.get(case.trial.model.kind)
                if before is None or estimated_bytes([case.trial]) > estimated_bytes([before]):
                    found[case.trial.model.kind] = case.trial
    return found


def row(kind: str, trial: Trial) -> str:
    said = estimated_bytes([trial]) / MIB
    try:
        taken = bytes_per_replica(trial, torch.device("cuda")) / MIB
    except torch.cuda.OutOfMemoryError:  # one that does not fit says something, too
        return f"| {kind} | {trial.task} | {said:,.1f} | does not fit | – |"
    return f"| {kind} | {trial.task} | {said:,.1f} | {taken:,.1f} | {said / taken:.2f} |"


def main() -> None:
    needs_gpu()
    began, left = time.monotonic(), []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, MiB\n")
    print("| model | task | estimate | actual | ratio |\n| --- | --- | --- | --- | --- |")
    for kind, trial in trials().items():
        if time.monotonic() - began > SECONDS:
            left.append(kind)
        else:
            print(row(kind, trial), flush=True)
            torch.cuda.empty_cache()
    print(f"\n{time.monotonic() - began:.0f} s" + f"; not reached: {', '.join(left)}" * bool(left))


if __name__ == "__main__":
    main()
