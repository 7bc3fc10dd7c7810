"""Whether a task's step has an action that is the step's own, and may be larger than that of the whole problem.

The smallest problems show what a step computes. Of two numbers, a scan and a merge take one step; among three nodes,
the best way from the first to the last is one step of pairs: w_02 against w_01 and w_12. So the numbers that a step
reads are moved there, one column of G at a time, and the answer must move by its row. Moved numbers that are no input
of the task are passed over.
"""

import math
from itertools import product
from typing import Any

import torch
from torch import Tensor

from posattn import user_code
from posattn.errors import PosattnError
from posattn.nn import Action, Looped
from posattn.nn.symmetry import shift

#: Smallest problems that are tried, and the largest difference between two ways to an answer, relative to the answer.
PROBLEMS, TOLERANCE = 24, 1e-9
#: By schedule: the nodes of a smallest problem whose answer is one step, each with those that it reads, in order.
READS: dict[str, list[tuple[int, list[int]]]] = {
    "scan": [(1, [1, 0])],
    "bitonic": [(0, [0, 1]), (1, [1, 0])],
    "pairs": [(2, [2, 1, 5])],
}
NAMES = {"scan": "self, partner", "bitonic": "self, partner", "pairs": "D_ij, D_ik, D_kj"}


def check_step(model: Looped, task: Any, inputs: Tensor) -> None:
    """Raise where an answer of one step does not move as the model's would, and show what the step reads there."""
    action = _action(model)
    if action is None or model.reads != "all":
        return
    columns = [list(map(float, column)) for column in zip(*action.rows, strict=True)]
    moves = [[sign * entry for entry in column] for column in columns for sign in (1, -1)]
    for problem in _smallest(inputs.double(), model.schedule)[:PROBLEMS]:
        for (node, reads), (*by, wanted) in product(READS[model.schedule], moves):
            moved = problem.clone()
            moved[reads, 0] += moved.new_tensor(by)
            before, after = _answer(task, problem, node), _answer(task, moved, node)
            if before is None or after is None or abs(after - before - wanted) <= TOLERANCE * (1 + abs(before)):
                continue
            shown, to = (", ".join(f"{number:.3g}" for number in x[reads, 0].tolist()) for x in (problem, moved))
            own = "Use a smaller group, with fewer columns, or another row for the answer."
            fix = own if isinstance(model.translation, Action) else f"Leave '{model.translation}' out."
            raise PosattnError(
                f"symmetry={_shown(model)}: the step of task '{task.name}' does not have it. From "
                f"{NAMES[model.schedule]} = {shown} to {to} its answer should move by {wanted:.3g}, and moves by "
                f"{after - before:.3g}. {fix}"
            )


def _shown(model: Looped) -> str:
    name = model.translation
    if not isinstance(name, Action):
        return f"'{name}'"
    return f"Action({tuple(tuple(int(one) if one == int(one) else one for one in row) for row in name.rows)})"


def _action(model: Looped) -> Action | None:
    """How the numbers of a whole step move; a chain's share one shift. Tables have no step of one piece."""
    if model.translation is None or model.schedule not in READS:
        return None
    return model.actions[0] if len(model.actions) == 1 else shift(3)


def _smallest(x: Tensor, schedule: str) -> Tensor:
    """Neighbours in a list, or the graphs of three nodes that follow one another: (problems, nodes, 1)."""
    if schedule != "pairs":
        return x[:, : x.shape[1] // 2 * 2].reshape(-1, 2, 1)
    side = math.isqrt(x.shape[1])
    table = x.reshape(-1, side, side)
    parts = [table[:, start : start + 3, start : start + 3] for start in range(0, side - 2, 3)]
    return x.new_zeros(0, 9, 1) if not parts else torch.cat(parts).reshape(-1, 9, 1)


def _answer(task: Any, problem: Tensor, node: int) -> float | None:
    """A node's answer to one problem; None where the task has no such input."""
    try:
        with user_code.named(f"task '{task.name}': target", owner=task):
            return float(task.target(problem[None])[0, node, -1])
    except PosattnError:
        return None
