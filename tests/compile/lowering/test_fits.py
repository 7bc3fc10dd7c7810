"""Fits: calls become lines, errors are proved, and certificates of fitted programs hold."""

import dataclasses
import importlib.util
import json
from fractions import Fraction

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import (
    Program,
    Round,
    call,
    compile,
    equal,
    gate,
    load,
    maximum,
    minimum,
    product,
    reads,
    relu,
    run,
    sigmoid,
    word,
)  # fmt: skip
from posattn.compile.error_bound import promise
from posattn.compile.expressions import Call, Expression, Line, walk
from posattn.compile.expressions.known_functions import FUNCTIONS
from posattn.compile.lowering.expression_bounds import Interval, bounds
from posattn.compile.lowering.fits import Fitted, calls_of, checked_fits, errors_of, fit_calls, replace_calls
from posattn.compile.lowering.lower import lower
from posattn.nn.weights import read_header, write_weights

x, y = word("x"), word("y")
#: An expression, and the same in NumPy.
FITTED = {
    "product": (x * y, lambda x, y: x * y),
    "quotient": (x / maximum(y, 0.5), lambda x, y: x / np.maximum(y, 0.5)),
    "number over": (3 / maximum(x, 1), lambda x, y: 3 / np.maximum(x, 1)),
    "exp": (call(np.exp, x), lambda x, y: np.exp(x)),
    "sqrt": (call(np.sqrt, relu(x)), lambda x, y: np.sqrt(np.maximum(x, 0))),
    "log": (call(np.log, maximum(x, 0.1)), lambda x, y: np.log(np.maximum(x, 0.1))),
    "tanh of a sum": (call(np.tanh, x + y), lambda x, y: np.tanh(x + y)),
    "sigmoid gated": (gate(call(sigmoid, x), shut=word("bit")), lambda x, y: [1, 0] * (1 / (1 + np.exp(-x)))),
    "waves": (call(np.sin, x) - 2 * call(np.cos, 3 * y), lambda x, y: np.sin(x) - 2 * np.cos(3 * y)),
    "nested": (call(np.exp, minimum(x * y, 0)) * y, lambda x, y: np.exp(np.minimum(x * y, 0)) * y),
}


def program(*updates: Expression, **options) -> Program:
    rounds = tuple(Round(update={"x": update}) for update in updates)
    return Program(
        name="p", length=2, nodes=2, registers=("x", "y", "bit"), inputs=("x", "y"), rounds=rounds,
        constants={"bit": (0.0, 1.0)}, **options,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_program_is_certified_and_the_bound_is_no_idle_one(name, dtype):
    expression, expected = FITTED[name]
    made = compile(program(expression), domain=4, fit=33, dtype=dtype)
    promised = promise(made.program, 4, dtype, made.lines)
    assert promised.relative_to == "the domain"
    assert promised.floor < 1e-30  # fits are in the bound, not on top of it
    drawn = np.random.default_rng(0).uniform(-4, 4, (4000, 2, 2)).astype(str(dtype).removeprefix("torch."))
    with torch.no_grad():
        found = made.model(torch.from_numpy(drawn)).numpy()[:, :, 0]
    error = np.abs(found - expected(*drawn.astype(np.float64).transpose(2, 0, 1))).max() / 4
    assert error <= promised.bound <= 8 * error
    if name == "nested":
        certificate = made.verify(samples=4).certificate
        assert certificate is not None
        assert (certificate.holds, certificate.bound) == (True, promised.bound)


def test_more_knots_make_the_bound_smaller_with_their_square():
    """Two lines near z²/4 on [−8, 8], each off by h²/32, relative to a domain of 4."""
    for knots in (9, 65, 513):
        made = compile(program(x * y), domain=4, fit=knots, dtype=torch.float64)
        bound = promise(made.program, 4, torch.float64, made.lines).bound
        assert bound == pytest.approx(2 * (16 / (knots - 1)) ** 2 / 32 / 4, rel=1e-3)


def line_at(fit: Fitted, z: Fraction) -> Fraction:
    terms = (Fraction(b) * max(z - Fraction(k), Fraction(0)) for k, b in zip(fit.knots, fit.bends, strict=True))
    return Fraction(fit.start) + sum(terms)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_stored_weights_are_the_lines_to_the_last_bit(dtype):
    """The MLP with its weights as exact fractions, against the line by hand."""
    made = compile(program(call(np.exp, x)), domain=2, fit=9, dtype=dtype)
    (fit,) = made.lines
    held = {name: tensor[0].double().tolist() for name, tensor in made.model.weights().items() if "mlp" in name}
    place = {name: row for row, name in enumerate(made.registers)}
    for value in (-2.0, -0.7, 0.0, 1.9, 2.0):
        state = [Fraction(0)] * len(held["mlp_in_weight"])
        state[place["x"]], state[place["one"]] = Fraction(value), Fraction(1)
        columns = zip(*held["mlp_in_weight"], strict=True)
        hidden = [max(sum(map(_times, state, column), Fraction(0)), Fraction(0)) for column in columns]
        out = sum(_times(h, row[place["x"]]) for h, row in zip(hidden, held["mlp_out_weight"], strict=True))
        assert out == line_at(fit, Fraction(value))


def _times(one: Fraction, other: float) -> Fraction:
    return one * Fraction(other)


def test_calls_become_lines_in_the_order_in_which_they_are_named():
    nested = call(np.exp, minimum(x * y, 0))
    both = program(nested * y, call(np.tanh, x) + nested)
    expanded = dataclasses.replace(
        both,
        rounds=(
            Round(update={"x": call(product, call(np.exp, minimum(call(product, x, y), 0)), y)}),
            Round(update={"x": call(np.tanh, x) + call(np.exp, minimum(call(product, x, y), 0))}),
        ),
    )
    assert [[c.name for c in calls_of(round_)] for round_ in expanded.rounds] == [
        ["product", "exp", "product"], ["tanh", "exp", "product"],
    ]  # fmt: skip
    fits = lower(both, domain=2, fit=5).fits
    assert [(fit.round, fit.function) for fit in fits] == [
        (1, "product"), (1, "product"), (1, "exp"), (1, "product"), (1, "product"),
        (2, "tanh"), (2, "exp"), (2, "product"), (2, "product"),
    ]  # fmt: skip
    replaced = replace_calls(expanded, fits)
    parts = [part for round_ in replaced.rounds for e in round_.update.values() for part in walk(e)]
    assert not any(isinstance(part, Call) for part in parts)
    assert sum(isinstance(part, Line) for part in parts) == 9
    drawn = np.random.default_rng(0).uniform(-2, 2, (200, 2, 2))
    assert np.abs(run(replaced, drawn) - run(both, drawn)).max() < 1.0


def test_a_function_is_listed_with_its_largest_error_and_a_product_with_that_of_both_lines():
    made = compile(program(x * y + (4 * x) * y, call(np.tanh, x) + call(np.tanh, x / 8)), domain=2, fit=5)
    errors = [line.error for line in made.lines]
    assert [line.function for line in made.lines] == ["product"] * 4 + ["tanh"] * 2
    largest = {"product": max(errors[0] + errors[1], errors[2] + errors[3]), "tanh": max(errors[4:])}
    assert dict(errors_of(made.lines)) == dict(made.fits) == largest


def test_a_line_covers_all_that_its_argument_can_be_at_any_node():
    shifted = Round(receive={"left": reads("x", [None, 0])}, update={"x": call(np.exp, word("left") - 3 * y)})
    (fit,) = lower(dataclasses.replace(program(x), rounds=(shifted,)), domain=2, fit=5).fits
    assert -8.00001 < fit.low < -8 < 8 < fit.high < 8.00001


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "product"])
def test_known_functions_are_bounded_by_their_least_and_largest_values(name):
    """Sampled densely, on intervals with and without an extremum."""
    ends = np.array([[0.1, 0.2], [0.1, 1.6], [0.3, 2.9], [1.7, 4.8], [2.0, 5.0], [3.2, 9.6], [0.01, 40.0]])
    samples = FUNCTIONS[name](np.linspace(ends[:, 0], ends[:, 1], 10_001))
    found = bounds(call(FUNCTIONS[name], x, name=name), {"x": Interval(ends[:, 0], ends[:, 1])})
    assert (found.low <= samples.min(0)).all()
    assert (found.high >= samples.max(0)).all()
    np.testing.assert_allclose(found, [samples.min(0), samples.max(0)], atol=1e-5)


def test_a_function_of_ones_own_has_no_bound():
    root = program(call(lambda v: np.sqrt(np.abs(v)), x, name="root"))
    made = compile(root, domain=4, fit=65, dtype=torch.float64).verify(samples=64)
    found = made.certificate
    assert found is not None
    assert (found.holds, found.bound, found.compiled, found.counterexample) == (False, None, True, None)
    assert "fitted, so that only its error is known" in str(found)
    ((name, error),) = found.fits
    assert name == "root"
    assert 0.2 * error < 4 * found.error <= 1.05 * error


def test_another_function_of_a_known_name_is_not_taken_for_it():
    (fit,) = compile(program(call(np.square, x, name="exp")), domain=1, fit=9).lines
    assert not fit.proved


def test_without_python_flint_fits_compile_as_before_and_products_are_still_proved(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = compile(program(call(np.exp, x)), domain=1, fit=9).verify(samples=4).certificate
    assert found is not None
    assert (found.holds, found.bound) == (False, None)
    assert found.fits[0][1] == pytest.approx(float(found.error), rel=0.1)
    multiplied = compile(program(x * y), domain=1, fit=9).verify(samples=4).certificate
    assert multiplied is not None
    assert multiplied.holds


# ---- files


def saved_lines(path) -> list[dict]:
    return json.loads(read_header(path)["compiled"])["lines"]


def test_a_file_keeps_the_users_program_and_the_lines_beside_it(tmp_path):
    made = compile(program(call(np.exp, x) * y), domain=2, fit=9).verify(samples=4)
    made.save(tmp_path / "made")
    back = load(tmp_path / "made")
    assert back.program == made.program
    assert (back.lines, back.fits, back.certificate) == (made.lines, made.fits, made.certificate)
    assert [set(line) for line in saved_lines(tmp_path / "made")] == [
        {"round", "function", "low", "high", "start", "knots", "bends", "error", "proved"}
    ] * 3
    again = back.verify(samples=4)
    assert again.certificate == made.certificate


def edited(path, **changes) -> None:
    """The file with its first line changed, and no certificate."""
    header = read_header(path)
    about = json.loads(header["compiled"])
    about["lines"][0] |= changes
    model = load(path).model
    notes = {"program": header["program"], "compiled": json.dumps(about), "text": header["text"]}
    write_weights(path, model.architecture, model.weights(), notes=notes)


def test_verifying_trusts_no_line_of_a_file(tmp_path):
    path = tmp_path / "made"
    made = compile(program(call(np.exp, x)), domain=2, fit=9)
    made.save(path)
    honest = made.verify(samples=4).certificate
    assert honest is not None
    edited(path, error=1e-9)  # the error is found anew
    assert load(path).verify(samples=4).certificate.bound == honest.bound  # type: ignore[union-attr]
    edited(path, start=made.lines[0].start + 0.5)  # the weights are those of another line
    assert not load(path).verify(samples=4).certificate.holds  # type: ignore[union-attr]
    edited(path, low=-1.0)
    with pytest.raises(
        PosattnError, match=r"exp is fitted on \[-1, 2\], and x in exp\(x\) can be anything from -2 to 2"
    ):
        load(path).verify(samples=4)


@pytest.mark.parametrize(
    "changes",
    [{"knots": [0.0]}, {"bends": []}, {"knots": [1.0] * 8}, {"start": float("nan")}, {"error": "x"}, {"low": 9.0},
     {"knots": None}, {"function": [1], "knots": 3}, {"round": "one"}],
)  # fmt: skip
def test_what_is_no_line_does_not_load(tmp_path, changes):
    compile(program(call(np.exp, x)), domain=2, fit=9).save(tmp_path / "made")
    edited(tmp_path / "made", **changes)
    with pytest.raises(PosattnError, match="cannot be loaded as a compiled program"):
        load(tmp_path / "made")


def test_a_fitted_file_from_before_lines_were_kept_loads_and_has_no_bound(tmp_path):
    path = tmp_path / "made"
    made = compile(program(x * y), domain=2, fit=9)
    dataclasses.replace(made, lines=()).save(path)
    assert "lines" not in json.loads(read_header(path)["compiled"])
    found = load(path).verify(samples=4)
    assert found.certificate is not None
    assert (found.certificate.holds, found.certificate.bound, found.fits) == (False, None, made.fits)


def test_lines_of_another_program_are_refused():
    one, other = program(call(np.exp, x)), program(call(np.exp, x) + call(np.tanh, x))
    fits = lower(one, domain=2, fit=5).fits
    with pytest.raises(PosattnError, match="1 fits for 2 of program 'p'"):
        checked_fits(other, 2, fits)
    with pytest.raises(PosattnError, match=r"round 1: the fits have no line for tanh\(x\)"):
        replace_calls(other, fits)
    with pytest.raises(PosattnError, match="more fits than calls"):
        replace_calls(one, fits * 2)


# ---- bad input


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (x / y, r"reciprocal\(y\): y can be anything from -4 to 4, .* Keep it away from 0"),
        (1 / (relu(y) + x), "reciprocal is not always defined"),
        (call(np.sqrt, x), r"sqrt\(x\): x can be anything from -4 to 4, .* relu\(e\)"),
        (call(np.log, relu(x)), r"log\(relu\(x\)\): .* from 0 to 4, .* maximum\(e, 0.01\)"),
        (call(np.hypot, x, y), r"hypot\(x, y\): a function of 2 arguments cannot be fitted"),
        (call(lambda v: np.where(v > 0, np.inf, 0), x, name="step"), "step is not finite on"),
        (call(np.exp, call(np.exp, 9 * x)), "exp is not finite on|is not bounded"),
        (equal(call(np.exp, x), 1), "decides by .*, which can be any number"),
    ],
)
def test_what_cannot_be_fitted_is_one_error(expression, message):
    with pytest.raises(PosattnError, match=message):
        lower(program(expression, grid=1.0), domain=4, fit=8)


def test_two_knots_are_the_least():
    with pytest.raises(PosattnError, match="fit=1: a broken line has at least two knots"):
        fit_calls(program(call(np.exp, x)), 4, knots=1, dtype=torch.float32)


def test_quotients_by_constants_need_no_fit():
    divided = dataclasses.replace(program(x / (word("bit") + 2)), constants={"bit": (1.0, -2.25)})
    made = compile(divided, domain=8, dtype=torch.float64).verify(samples=8)
    assert made.certificate is not None
    assert made.certificate.holds
    assert made(torch.tensor([[[6.0, 0], [1.0, 0]]], dtype=torch.float64))[0, :, 0].tolist() == pytest.approx([2, -4])
    with pytest.raises(PosattnError, match=r"reciprocal\(bit\) is not defined at node 0, where that is 0"):
        compile(program(x / word("bit")))
