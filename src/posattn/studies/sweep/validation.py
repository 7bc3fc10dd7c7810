"""The set that settings are chosen by: the study's own called `validation`, or one made from its training options."""

from typing import Any

from posattn import tasks
from posattn.errors import require
from posattn.tasks import Fixed
from posattn.train.changes import apply
from posattn.train.fleet.grouping import batched
from posattn.train.runnable import Runnable

VALIDATION = "validation"


def validated(trial: Runnable) -> Runnable:
    """The trial with a validation set: samples drawn as those of its training, from the stream of that set's name.

    Where training has several lengths, they have the longest of them.
    """
    if any(one.name == VALIDATION for one in trial.test_sets):
        return trial
    task, options = getattr(trial, "task", None), dict[str, Any]()
    if batched(trial):
        require(
            not isinstance(tasks.get(trial.task), Fixed),
            f"task '{task}' is fixed data without a split '{VALIDATION}', and a setting is never chosen by training or "
            f"test data: give it one, splits={{'train': …, '{VALIDATION}': …}}.",
        )
        options = {"length": max(trial.data.lengths)} if trial.data.lengths else {}
    sets = {one.name: one.options for one in trial.test_sets} | {VALIDATION: options}
    return apply(trial, {"evaluation.sets": sets})
