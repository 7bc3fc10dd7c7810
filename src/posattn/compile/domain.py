"""Which inputs a compiled program takes: their shape, their range, their grid, and permutations where it needs them."""

import torch
from torch import Tensor

from posattn.checks import tensor
from posattn.compile.input_ranges import Domain, bound_of, grid_of
from posattn.compile.lowering.floats import has_exact_multiples
from posattn.compile.program import Program
from posattn.errors import PosattnError, require


def check_inputs(program: Program, x: Tensor, *, domain: Domain, dtype: torch.dtype) -> None:
    """Raise where a value is not in the domain that a model of this dtype was compiled for."""
    tensor("x", x)
    require(
        x.dim() == 3 and x.shape[2] == len(program.inputs),
        f"the input has shape {tuple(x.shape)}: '{program.name}' takes (batch, length, {len(program.inputs)}).",
    )
    require(x.shape[1] > 0, f"the input has shape {tuple(x.shape)}: it holds no numbers. Give at least one.")
    require(
        x.shape[1] <= program.length,
        f"{x.shape[1]} numbers: the model was compiled for length {program.length}. Compile it for a longer one.",
    )
    require(
        (program.pad is not None and not program.permutations) or x.shape[1] == program.length,
        f"{x.shape[1]} numbers: '{program.name}' works on exactly {program.length}, shorter inputs cannot be "
        "filled up. Compile it for that length.",
    )
    for column, name in enumerate(program.inputs):
        if name not in program.permutations:
            bound = bound_of(program, domain, name)
            reason = f"lies outside ±{bound:g}, where the model is certified: compile it with a larger domain"
            _refuse(x, ~(x[:, :, column].abs() <= bound), column, reason)
    check_kinds(program, x, dtype)


def check_kinds(program: Program, x: Tensor, dtype: torch.dtype) -> None:
    """Raise where an input is off the program's grid, or not a permutation where it takes one.

    A grid such as 0.1 has no exact multiples: there a number may be as far from one as rounding to `dtype`, the
    model's, takes it.
    """
    for column, name in enumerate(program.inputs):
        given, grid = x[:, :, column], grid_of(program, name)
        if name in program.permutations:
            _check_permutation(name, given)
        elif grid is not None:
            nearest = (given.double() / grid).round() * grid
            exact = has_exact_multiples(grid)
            slack = 0.0 if exact else torch.finfo(dtype).eps
            reason = f"is not a multiple of {grid:g}, and '{program.name}' is right on that grid alone: round it"
            _refuse(x, ~((given.double() - nearest).abs() <= slack * given.abs()), column, reason)
            _refuse(x, (given.to(dtype) != given) & exact, column, f"{dtype} cannot hold: compile it in torch.float64")


def _check_permutation(name: str, x: Tensor) -> None:
    whole = torch.arange(x.shape[1], device=x.device, dtype=x.dtype).expand_as(x)
    wrong = (x.sort(dim=1).values != whole).any(dim=1)
    if wrong.any():
        sample = int(wrong.nonzero()[0])
        held = ", ".join(f"{value:g}" for value in x[sample, :12].tolist())
        raise PosattnError(
            f"'{name}' of sample {sample} is {held}: it must hold every number of 0 … {x.shape[1] - 1} once."
        )


def _refuse(x: Tensor, wrong: Tensor, column: int, reason: str) -> None:
    if wrong.any():
        sample, place = wrong.nonzero()[0].tolist()
        value = str(x[sample, place, column].cpu().numpy()).removesuffix(".0")  # as few digits as tell it from others
        raise PosattnError(f"the input holds {value} at {[sample, place]}, which {reason}.")
