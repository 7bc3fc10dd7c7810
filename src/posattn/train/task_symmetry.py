"""Whether a task's answers have the symmetry that a model is built with: a model that has more can never learn them.

Checked on samples. The potential of tables and actions of one's own are the step's, which may be larger than the
task's: they are not asked about here, and neither is a symmetry that leads to inputs that a task does not have.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posattn.errors import PosattnError
from posattn.nn import Looped

#: Samples that are tried, and the largest difference between two ways to an answer, relative to the answer.
SAMPLES, TOLERANCE = 8, 1e-9


def check_symmetry(model: Looped, task: Any, inputs: Tensor) -> None:
    """Raise where an input's answer does not move as the model's would, and show that input."""
    if inputs.shape[-1] != 1:
        return
    x = inputs.double()
    for name in model.symmetry:
        moves = MOVES.get(str(name))
        if moves is None or (name == "potential" and model.schedule != "pairs"):
            continue
        moved, wanted = moves(x, task.target)
        try:
            found = task.target(moved)
        except PosattnError:  # no inputs of the task, as graphs whose edges are not 0 or 1: the symmetry is the step's
            continue
        off = (found - wanted).abs().flatten(1).amax(1)
        worst = int(off.argmax())
        if float(off[worst]) > TOLERANCE * (1 + float(wanted.abs().max())):
            given = " ".join(f"{number:.3g}" for number in x[worst].flatten().tolist()[:8])
            raise PosattnError(
                f"symmetry='{name}': the answers of task '{task.name}' do not have it. For the input {given} …, "
                f"{WHAT[str(name)]} is off by {float(off[worst]):.3g}. Leave '{name}' out."
            )


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


#: For each symmetry, the moved input and what its answer should be; and that in words.
MOVES = {"scale": _scaled, "shift": _shifted, "linear": _added, "potential": _lifted}
WHAT = {
    "scale": "f(3x) = 3·f(x)",
    "shift": "f(x + 5) = f(x) + 5",
    "linear": "f(x + y) = f(x) + f(y)",
    "potential": "f(w_ij + u_i − u_j) = f(w)_ij + u_i − u_j, with u_i = i²,",
}
