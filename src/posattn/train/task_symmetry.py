"""Whether a task's answers have the symmetry that a model is built with: a model that has more can never learn them.

Checked on samples. An action of one's own is the step's, and may be larger than the task's: it is checked against the
step (`posattn.train.step_symmetry`), and so is a symmetry that leads to inputs that a task does not have.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posattn.errors import PosattnError, require
from posattn.nn import Action, Looped
from posattn.nn.symmetry import checked_symmetry
from posattn.train.step_symmetry import check_step

#: Samples that are tried, and the largest difference between two ways to an answer, relative to the answer.
SAMPLES, TOLERANCE = 8, 1e-9
#: Numbers of an input that an error shows.
SHOWN = 8


def check_symmetry(model: Looped, task: Any, inputs: Tensor) -> None:
    """Raise where an input's answer does not move as the model's would, and show that input."""
    for symmetry in checked_symmetry(model.symmetry):
        if isinstance(symmetry, Action):
            check_step(model, task, inputs)
            continue
        name = "potential of tables" if (symmetry, model.schedule) == ("potential", "grid") else symmetry
        if has_symmetry(symmetry, task, inputs, move=name):
            continue
        require(
            symmetry != "linear",
            f"symmetry='linear': the sum of two inputs of task '{task.name}' is no input of it. Leave 'linear' out.",
        )
        if symmetry == model.translation:
            check_step(model, task, inputs)


def has_symmetry(symmetry: str, task: Any, inputs: Tensor, *, move: str | None = None) -> bool:
    """Raise where the answers do not have a symmetry. False where it leads to what is no input of the task.

    So it is for graphs whose edges are not 0 or 1: there the symmetry is the step's. `move` is its name in `MOVES`.
    """
    x, move = inputs.double(), move or symmetry
    moved, wanted = MOVES[move](x, task.target)
    try:
        found = task.target(moved)
    except PosattnError:
        return False
    off = (found - wanted).abs().flatten(1).amax(1)
    worst = int(off.argmax())
    if float(off[worst]) > TOLERANCE * (1 + float(wanted.abs().max())):
        numbers = x[worst].flatten().tolist()
        given = " ".join(f"{number:.3g}" for number in numbers[:SHOWN]) + (" …" if len(numbers) > SHOWN else "")
        raise PosattnError(
            f"symmetry='{symmetry}': the answers of task '{task.name}' do not have it. For the input {given}, "
            f"{WHAT[move]} is off by {float(off[worst]):.3g}. Leave '{symmetry}' out."
        )
    return True


Answer = Callable[[Tensor], Tensor]


def _scaled(x: Tensor, answer: Answer) -> tuple[Tensor, Tensor]:
    return 3 * x, 3 * answer(x)


def _shifted(x: Tensor, answer: Answer) -> tuple[Tensor, Tensor]:
    return x + 5, answer(x) + 5


def _added(x: Tensor, answer: Answer) -> tuple[Tensor, Tensor]:
    return x + x.roll(1, 0), answer(x) + answer(x.roll(1, 0))


def _lifted(x: Tensor, answer: Answer) -> tuple[Tensor, Tensor]:
    side = math.isqrt(x.shape[1])
    height = torch.arange(side, dtype=x.dtype).square()
    by = (height[:, None] - height).reshape(1, -1, 1)
    return x + by, answer(x) + by


def _lifted_table(x: Tensor, answer: Answer) -> tuple[Tensor, Tensor]:
    side = math.isqrt(x.shape[1])
    row = torch.arange(side, dtype=x.dtype)
    height = 1 + row[:, None].square() - 2 * row
    below = F.pad(height, (1, 0, 1, 0))
    across, up, left = (height - before for before in (below[:-1, :-1], below[:-1, 1:], below[1:, :-1]))
    by = torch.stack([across, up, left], dim=-1).reshape(1, -1, 3)
    return x + by, answer(x) + height.reshape(1, -1, 1)


#: For each symmetry, the moved input and what its answer should be; and that in words.
MOVES = {
    "scale": _scaled,
    "shift": _shifted,
    "linear": _added,
    "potential": _lifted,
    "potential of tables": _lifted_table,
}
WHAT = {
    "scale": "f(3x) = 3·f(x)",
    "shift": "f(x + 5) = f(x) + 5",
    "linear": "f(x + y) = f(x) + f(y)",
    "potential": "f(w_ij + u_i − u_j) = f(w)_ij + u_i − u_j, with u_i = i²,",
    "potential of tables": "f(costs moved by u_to − u_from) = f(costs) + u, with u_ij = 1 + i² − 2j,",
}
