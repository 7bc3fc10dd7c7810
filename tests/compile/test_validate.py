"""Decisions that a value or a rounding can fall between are refused, with the place and the reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import Program, Round, compile, distance, equal, exchange, gate, positive, relu, select, word

x, z, w = word("x"), word("z"), word("w")


def program(update: Any, grid: float | None = 1.0, inputs: tuple[str, ...] = ("x",)) -> Program:
    return Program(
        name="p", length=2, nodes=2, registers=(*inputs, "y"), inputs=inputs, outputs=("y",), grid=grid,
        rounds=(Round(update={"y": update}),),
    )  # fmt: skip


#: What is decided, on which grid and domain, and what must be said.
UNDECIDED: dict[str, tuple[Any, float | None, float, str]] = {
    "half a step off": (positive(x - 100.5), 1.0, 1000, "which can be 0.5"),
    "half the numbers": (positive(x * 0.5 - 50), 1.0, 1000, "which can be 0.5"),
    "a finer grid": (positive(x - 100), 0.25, 1000, "which can be 0.25"),
    "a third": (positive(x / 3), 1.0, 10, "which can be 0.333333"),
    "a distance below 1": (gate(1000.0, shut=distance(x, 100)), 0.25, 1000, "which can be 0.25"),
    "equal halves": (select(equal(x / 2, 50), 1000, x), 1.0, 1000, "which can be -0.5"),
    "two bits added": (select(positive(x) + positive(x - 1), 1, 2), 1.0, 10, "which can be 2"),
    "a bit below 0": (exchange(x, 0, upper=positive(x) - 1), 1.0, 10, "which can be -1"),
    "a number for a bit": (select(x, 1, 2), 1.0, 10, "which can be -10"),
    "any number": (positive(x), None, 10, "can be any number"),
    "any number as a shutter": (gate(1, shut=relu(x)), None, 10, "can be any number"),
    "more steps than bits": (equal(x, 16777218), 1.0, 2.0**25, "more than a quarter of a step"),
    "more steps than bits, above": (positive(x), 1.0, 2.0**25, "dtype=torch.float64"),
    "a shutter that rounds": (gate(x, shut=distance(x * 0.1, 0.3) * 10), 1.0, 100, "which rounding can move by"),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_decision_that_is_not_exact_is_refused_with_its_place_and_reason(name):
    update, grid, domain, said = UNDECIDED[name]
    with pytest.raises(PosattnError) as caught:
        compile(program(update, grid), domain=domain)
    assert "program 'p' cannot be compiled exactly" in str(caught.value)
    assert "round 1, register 'y': " in str(caught.value)
    assert said in str(caught.value)


#: The same, as it should be written, with the right answer.
DECIDED: dict[str, tuple[Any, float, Callable[[np.ndarray], np.ndarray]]] = {
    "half a step off": (positive(x - 100.5, grid=0.5), 1.0, lambda v: v > 100.5),
    "half the numbers": (positive(x * 0.5 - 50, grid=0.5), 1.0, lambda v: v > 100),
    "a finer grid": (positive(x - 100, grid=0.25), 0.25, lambda v: v > 100),
    "a scaled distance": (gate(1000.0, shut=distance(x, 100) / 0.25), 0.25, lambda v: 1000.0 * (v == 100)),
    "equal halves": (select(equal(x / 2, 50, grid=0.5), 1000, x), 1.0, lambda v: np.where(v == 100, 1000, v)),
    "a coarser comparison": (positive(3 * x, grid=3.0), 1.0, lambda v: v > 0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DECIDED)
def test_the_same_decision_on_its_own_grid_is_exact(name, dtype):
    update, grid, answer = DECIDED[name]
    made = compile(program(update, grid), domain=1000, dtype=dtype)
    numbers = np.concatenate([np.arange(-1000, 1001, 1.0), 100 + grid * np.arange(-8, 8), [101, 100]])
    numbers = numbers[: len(numbers) // 2 * 2].reshape(-1, 2)
    found = made(torch.from_numpy(numbers)).numpy()
    np.testing.assert_array_equal(found, answer(numbers).astype(found.dtype))


def test_equality_on_a_grid_of_tenths_is_right_for_every_true_case():
    """Sums of tenths are rounded: x + z and w differ by a few units in the last place, and are equal all the same."""
    made = compile(program(select(equal(x + z, w, grid=0.1), 1000, 0), 0.1, ("x", "z", "w")), domain=1000)
    rng = np.random.default_rng(0)
    tenths = rng.integers(-5000, 5001, (4000, 2, 2))
    numbers = np.concatenate([tenths, tenths.sum(axis=2, keepdims=True)], axis=2) / 10
    assert (made(torch.from_numpy(numbers)) == 1000).all()
    numbers[:, :, 2] += 0.1
    assert (made(torch.from_numpy(numbers.round(1))) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("domain", [1e-300, 1e-46, 1e-30])
def test_a_domain_below_what_the_dtype_keeps_whole_is_refused(domain, dtype):
    if dtype == torch.float64 and domain > 1e-276:
        found = compile(program(relu(x), None), domain=domain, dtype=dtype).verify(samples=8).certificate
        assert found is not None
        assert found.holds
        return
    with pytest.raises(PosattnError, match=f"domain={domain:g}: {dtype} keeps numbers whole down to"):
        compile(program(relu(x), None), domain=domain, dtype=dtype)


def test_sums_that_overflow_are_refused():
    with pytest.raises(PosattnError, match=r"adds up to .* beyond torch.float32"):
        compile(program(x + x + x + x, None), domain=2e38)
    assert compile(program(x + x + x + x, None), domain=2e38, dtype=torch.float64)


@pytest.mark.parametrize("domain", ["wide", True, None])
@pytest.mark.usefixtures("as_users_run_it")
def test_a_domain_is_a_number(domain):
    with pytest.raises(PosattnError, match=f"domain={domain!r}"):
        compile(program(relu(x), None), domain=domain)
