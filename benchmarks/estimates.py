"""How close are estimates of a replica's memory to what it takes on a GPU?

    python benchmarks/estimates.py

Prints, for models of several sizes, what `posattn.train.fleet.estimate` says and what a fleet of one takes at its peak.
"""

import torch

from posattn import studies
from posattn.train import Trial
from posattn.train.fleet.estimate import estimated_bytes
from posattn.train.fleet.memory import bytes_per_replica

MIB = 2**20


def trials() -> dict[str, Trial]:
    found = {}
    for study in ("ood-scale", "khop-depth", "sts-length", "length-scale", "mixed-type"):
        for task in studies.get(study).tasks[:2]:
            for preset in ("quick", "paper"):
                for case in studies.get(study).cases_of(task, preset):
                    if isinstance(case.trial, Trial):
                        found[f"{study} {preset} {task} {case.arm} {case.x}"] = case.trial
    return found


if __name__ == "__main__":
    for name, trial in trials().items():
        try:
            taken = bytes_per_replica(trial, torch.device("cuda")) / MIB
        except Exception as error:  # one that does not fit says something, too
            print(name, type(error).__name__, str(error)[:80])
            continue
        said = estimated_bytes([trial]) / MIB
        print(f"{name}: estimated {said:.1f} MiB, taken {taken:.1f} MiB, ratio {said / taken:.2f}")
