"""Decisions that a value or a rounding can fall between are refused, with the place and the reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import (
    Program,
    Round,
    compile,
    distance,
    equal,
    exchange,
    gate,
    maximum,
    positive,
    relu,
    select,
    word,
)

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


def test_what_verify_certifies_can_be_decided_in_the_model_s_own_dtype():
    """Compiled in float64 and made float32, a comparison has more steps than the significand holds."""
    made = compile(program(equal(x, 2.0**26 + 1)), domain=2.0**40, dtype=torch.float64)
    made.model.float()
    with pytest.raises(PosattnError, match="more than a quarter of a step"):
        made.verify(samples=2)


def test_weights_that_the_compiler_does_not_make_are_never_certified():
    made = compile(program(equal(x, 777)), domain=1e6)
    with torch.no_grad():
        for weight in made.model.parameters():
            weight[weight == -1554.5], weight[weight == 1553.5] = -1556.5, 1555.5
    assert made(torch.tensor([777.0, 778.0])).tolist() == [0.0, 1.0]  # wrong, at two numbers of two million
    found = made.verify(samples=8).certificate
    assert found is not None
    assert not found.compiled
    assert not found.holds
    assert "not those that the compiler makes" in str(found)


def test_a_complement_that_is_none_does_not_change_what_is_selected():
    wrong = maximum(1 - positive(x), equal(x, 777))
    made = compile(program(select(positive(x), 1000, 0, unless=wrong)), domain=1e5)
    assert made(torch.tensor([777.0, -777.0])).tolist() == [1000.0, 0.0]


def test_a_number_that_the_dtype_cannot_hold_is_refused_on_a_grid():
    made = compile(program(x + 0), domain=1e9)
    with pytest.raises(PosattnError, match=r"holds 16777217 at \[0, 0\], which torch.float32 cannot hold"):
        made(torch.tensor([16777217, 5]))


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**-120])
def test_numbers_too_small_for_the_dtype_are_part_of_the_promise(scale):
    there = compile(program(relu(x * scale) * (1 / scale), None)).verify(samples=8)
    found = there.certificate
    assert found is not None
    assert found.holds
    assert found.bound == 0
    for value in (1e-10, 1e-20, 1e-3, 5.0):
        assert abs(there(torch.tensor([value, 0.0]))[0].item() - value) <= found.floor + 1e-7 * value


def test_a_factor_below_the_smallest_number_of_the_dtype_is_refused():
    with pytest.raises(PosattnError, match=r"a factor is too small for torch\.float32"):
        compile(program(x * 2.0**-160, None))


def test_an_error_larger_than_the_value_passes_a_shut_gate_and_counts():
    """Differences of constants that the dtype rounds apart: each is off by more than a gate for it can hold back."""
    last = float(np.spacing(np.float32(1000)))
    near, far = (1000 + 0.499 * last,) * 2, (1000 + 0.501 * last,) * 2
    between = select(positive(x), word("c") - word("h"), word("d") - word("k"))
    made = compile(
        Program(
            name="p", length=2, nodes=2, registers=("x", "c", "h", "d", "k"), grid=1.0,
            constants={"c": far, "h": near, "d": far, "k": near},
            rounds=(Round(update={"x": relu(between - (1 - equal(x, 777)))}),),
        ),
        domain=1e5,
    ).verify(samples=8)  # fmt: skip
    found = made.certificate
    assert found is not None
    assert found.bound is not None
    assert abs(made(torch.tensor([777.0, 0.0]))[0].item() - 0.002 * last) <= found.bound * 1e5


def test_a_value_just_at_the_bound_of_what_is_possible_is_not_overlooked():
    """0.1 as a float lies above a tenth, and a tenth is what it stands for."""
    constants = {"c": (0.1, 0.1)}
    made = Program(
        name="p", length=2, nodes=2, registers=("x", "c"), grid=1.0, constants=constants,
        rounds=(Round(update={"x": positive(word("c"), grid=0.2)}),),
    )  # fmt: skip
    with pytest.raises(PosattnError, match=r"which can be 0\.1"):
        compile(made)
