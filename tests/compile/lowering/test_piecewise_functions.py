"""clip, ramp, floor_divide and modulo: interpreted, bounded and compiled, against NumPy."""

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import (
    Program,
    Round,
    clip,
    compile,
    equal,
    floor_divide,
    modulo,
    positive,
    ramp,
    run,
    select,
    word,
)  # fmt: skip
from posattn.compile.error_bound import promise
from posattn.compile.expressions import Expression
from posattn.compile.lowering.expression_bounds import Interval, bounds

x, y = word("x"), word("y")


def program(update: Expression, grid: float | None = None) -> Program:
    return Program(
        name="p", length=1, nodes=1, registers=("x", "y"), inputs=("x", "y"), rounds=(Round(update={"x": update}),),
        grid=grid,
    )  # fmt: skip


def outputs(made, numbers: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    x = np.stack([numbers, np.roll(numbers, 1)], axis=-1)[:, None]
    with torch.no_grad():
        return made.model(torch.from_numpy(x).to(dtype)).double().numpy()[:, 0, 0]


#: On a grid: the expression, its grid, and the same of whole numbers of steps in plain Python.
ON_A_GRID = {
    "modulo 3": (modulo(x, 3, low=-9, high=9), 1.0, lambda k: k % 3),
    "modulo 1": (modulo(x, 1, low=-9, high=9), 1.0, lambda k: 0),
    "modulo beyond all": (modulo(x, 20, low=-9, high=9), 1.0, lambda k: k % 20),
    "modulo by steps of a half": (modulo(x, 1.5, low=-9, high=9, grid=0.5), 0.5, lambda k: k % 3),
    "modulo by steps of a tenth": (modulo(x, 0.3, low=-9, high=9, grid=0.1), 0.1, lambda k: k % 3),
    "quotient by 4": (floor_divide(x, 4, low=-9, high=9), 1.0, lambda k: k // 4),
    "quotient in quarters": (floor_divide(x, 0.75, low=-9, high=9, grid=0.25) / 4, 0.25, lambda k: k // 3),
    "both": (modulo(floor_divide(x, 2, low=-9, high=9), 2, low=-5, high=4), 1.0, lambda k: k // 2 % 2),
    "parity chooses": (select(modulo(x, 2, low=-9, high=9), -x, x), 1.0, lambda k: -k if k % 2 else k),
    "a class": (equal(modulo(x, 4, low=-9, high=9), 3), 1.0, lambda k: int(k % 4 == 3)),
    "clip": (clip(x, low=-2, high=3), 1.0, lambda k: min(max(k, -2), 3)),
    "clip, then compared": (positive(clip(x, low=-2, high=3) - 2), 1.0, lambda k: int(k > 2)),
    "clip to one number": (clip(x, low=4, high=4), 1.0, lambda k: 4),
    "steps": (ramp(x, width=1), 1.0, lambda k: int(k > 0)),
}


@pytest.mark.parametrize("name", ON_A_GRID)
def test_functions_of_numbers_on_a_grid_are_exact(name):
    expression, grid, expected = ON_A_GRID[name]
    steps = np.arange(round(-9 / grid), round(9 / grid) + 1)
    numbers = steps * grid
    wanted = np.array([expected(int(k)) for k in steps]) * grid
    written = program(expression, grid)
    found = run(written, np.stack([numbers, numbers], -1)[:, None])[:, 0, 0]
    np.testing.assert_allclose(found, wanted, atol=1e-14)
    bound = promise(written, 9, torch.float32).bound
    assert (bound == 0) == (grid != 0.1)  # a tenth is no float
    found = outputs(compile(written, domain=9), numbers, torch.float32)
    np.testing.assert_allclose(found, wanted, atol=9 * bound + 1e-6 * (grid == 0.1), rtol=0)


#: On real numbers: the expression, and the same in NumPy.
REAL = {
    "clip": (clip(x, low=-0.3, high=0.7), lambda x, y: np.clip(x, -0.3, 0.7)),
    "clip beyond": (clip(x + y, low=-100, high=100), lambda x, y: x + y),
    "ramp": (ramp(x - y, width=0.1), lambda x, y: np.clip((x - y) / 0.1, 0, 1)),
    "wide ramp": (ramp(x, width=1000), lambda x, y: np.clip(x / 1000, 0, 1)),
    "a soft choice": (select(1, ramp(x, width=0.5), 0) + y, lambda x, y: np.clip(2 * x, 0, 1) + y),
}


@pytest.mark.parametrize("name", REAL)
def test_functions_of_real_numbers_equal_numpy_within_the_bound(name):
    expression, expected = REAL[name]
    made = compile(program(expression), domain=9)
    numbers = np.random.default_rng(0).uniform(-9, 9, 500).astype(np.float32).astype(np.float64)
    wanted = expected(numbers, np.roll(numbers, 1))
    error = np.abs(outputs(made, numbers, torch.float32) - wanted).max()
    assert error <= 9 * promise(made.program, 9, torch.float32).bound < 1e-4


def test_what_is_far_outside_leaves_no_rounding_error_behind():
    made = compile(program(clip(x, low=0.25, high=0.5) + ramp(y, width=0.01)), domain=1e6)
    numbers = np.array([1e6, -1e6, 765_432.1, -0.1])
    assert outputs(made, numbers, torch.float32).tolist() == [0.5, 1.25, 0.5, 1.25]


def test_bounds_are_as_close_as_the_values():
    words = {"x": Interval(np.array([-9.0]), np.array([9.0]))}
    for expression, low, high in [
        (modulo(x, 3, low=-9, high=9), 0, 2),
        (modulo(x, 1.5, low=-9, high=9, grid=0.25), 0, 1.25),
        (floor_divide(x, 4, low=-9, high=9), -3, 2),
        (clip(x, low=-2, high=3), -2, 3),
        (ramp(x, width=2), 0, 1),
    ]:
        found = bounds(expression, words)
        assert (found.low[0], found.high[0]) == (low, high), str(expression)


def test_reals_cannot_be_compared_and_the_error_names_the_ramp():
    with pytest.raises(PosattnError, match=r"or write ramp\(e, width=…\), which rises from 0 to 1 in between"):
        compile(program(positive(x)))
    with pytest.raises(PosattnError, match="decides by"):
        compile(program(modulo(x, 3, low=-9, high=9)))
