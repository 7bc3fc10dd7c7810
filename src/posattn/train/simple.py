"""The trials behind `posattn train`: one numeric task, one model, several seeds, tested at several scales."""

from posattn import tasks
from posattn.errors import PosattnError, require, unknown
from posattn.nn import Positional, Standard
from posattn.tasks.numeric import NUMERIC_TASKS
from posattn.train.trial import Data, Evaluation, Optimiser, Trial

MODELS = ("positional", "homogeneous", "standard")
#: Numbers that training sees lie in ± this.
RANGE = 2.0


def numeric_trials(
    task: str,
    model: str,
    *,
    length: int,
    seeds: int,
    steps: int,
    samples: int,
    batch: int,
    lr: float,
    scales: tuple[int, ...],
    precision: str,
) -> list[Trial]:
    """One trial a seed, with floor(log2 nodes) + 1 layers."""
    found = tasks.get(task)
    if not any(found.name == numeric.name for numeric in NUMERIC_TASKS):
        names = ", ".join(numeric.name for numeric in NUMERIC_TASKS)
        raise PosattnError(f"task '{task}' is not a list of numbers: `posattn train` takes {names}.")
    if model not in MODELS:
        raise unknown("model", model, MODELS)
    require(seeds >= 1, f"seeds={seeds}: train at least one.")
    require(all(scale >= 1 for scale in scales), f"scales {scales}: each must be 1 or more.")
    nodes = found.shape(length).nodes
    sizes = {"length": nodes, "layers": None}
    architecture = Standard(**sizes) if model == "standard" else Positional(bias=model == "positional", **sizes)
    inside = {"length": length, "low": -RANGE, "high": RANGE}
    sets = {
        f"c={scale}": inside
        if scale == 1
        else {"length": length, "low": -RANGE * scale, "high": RANGE * scale, "avoid": (-RANGE, RANGE)}
        for scale in scales
    }
    return [
        Trial(
            task=task,
            model=architecture,
            data=Data(samples=samples, batch=batch, options=inside),
            optimiser=Optimiser(steps=steps, lr=lr, schedule="cosine"),
            evaluation=Evaluation(sets=sets),
            precision=precision,
            seed=seed,
        )
        for seed in range(seeds)
    ]
