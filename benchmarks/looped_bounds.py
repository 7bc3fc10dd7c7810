"""What is proved of looped models for every input of the largest size, before and after polishing.

    posattn run length-scale --preset paper --seeds 10 --out runs
    python benchmarks/looped_bounds.py runs                                      (ten minutes on one core)

A row is the worst seed of a task, in real arithmetic, as shares of what `posattn bounds` names for the task.
"""

import sys
from pathlib import Path

from posattn import studies
from posattn.nn import load
from posattn.studies.length.length_scale import polished
from posattn.studies.length.relative_errors import polished_on
from posattn.theory.looped_errors import error_bound

SEEDS = range(10)
SIZES = {"min": 65_536, "max": 65_536, "sort": 65_536, "sum": 65_536}
SIZES |= {"widest-path": 256, "all-pairs": 256, "edit-distance": 512, "warping": 512}


def main(store: Path) -> None:
    print("| task | size | worst of ten seeds | polished |\n|---|---|---|---|")
    for task, size in SIZES.items():
        case = studies.get("length-scale").cases_of(task, "paper")[0]
        samples = polished(case)
        assert samples is not None
        models = {seed: load(store / case.seeded(seed).id / "weights.safetensors") for seed in SEEDS}
        before = max(float(error_bound(model, size).value) for model in models.values())
        after = max(
            float(error_bound(polished_on(model, samples, seed=seed), size).value) for seed, model in models.items()
        )
        print(f"| {task} | {size:,} | {before:.1e} | {after:.1e} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
