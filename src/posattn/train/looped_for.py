"""Which looped model suits a task: the wiring of the algorithm that solves it, and all the symmetry of its step."""

from posattn.errors import PosattnError
from posattn.nn import Looped

SHIFTED, LINEAR, MOVED = ("scale", "shift"), ("scale", "linear"), ("scale", "potential")
SUITED = {
    "min": Looped(schedule="scan", symmetry=SHIFTED),
    "max": Looped(schedule="scan", symmetry=SHIFTED),
    "sort": Looped(schedule="bitonic", symmetry=SHIFTED),
    "sum": Looped(schedule="scan", symmetry=LINEAR),
    "max-subarray": Looped(schedule="scan", symmetry=("scale",), state_dim=4),
    "all-pairs": Looped(schedule="pairs", symmetry=MOVED),
    "widest-path": Looped(schedule="pairs", symmetry=SHIFTED),
    "reachability": Looped(schedule="pairs", symmetry=SHIFTED),
    "edit-distance": Looped(schedule="grid", symmetry=MOVED),
    "warping": Looped(schedule="grid", symmetry=MOVED),
}


def looped_for(task: str) -> Looped:
    """The model for a task of this name."""
    if task in SUITED:
        return SUITED[task]
    if task == "whole-median":
        raise PosattnError(
            "model='looped': train task 'sort' instead. The whole median is what a model that sorts reads in the "
            "middle: LoopedPositionalTransformer(…, reads='median') with its weights."
        )
    raise PosattnError(
        f"model='looped': which schedule and symmetry suit task '{task}' is not known, as it is for "
        f"{', '.join(SUITED)}. Describe the model in Python: Trial(model=Looped(schedule=…, symmetry=…), …)."
    )
