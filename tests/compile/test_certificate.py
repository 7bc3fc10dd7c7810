"""Certificates: a wrong model never gets one, a right one always does, and the numbers in it are true."""

import copy
import dataclasses
import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from nn.oracle import reweighted
from posattn import PosattnError
from posattn.compile import Certificate, Compiled, Program, Round, call, compile, library, product, word
from posattn.compile import verify as verifying
from posattn.compile.lowering import lower
from posattn.compile.verify import relative_errors
from posattn.compile.verify_inputs import adversarial_inputs, exhaustive_inputs, random_inputs, steps
from posattn.nn import ExactPositionalTransformer

DOMAIN = 1000.0
ORACLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sort": lambda v: np.sort(v, axis=1),
    "cumsum": lambda v: np.cumsum(v, axis=1),
    "max-subarray": lambda v: np.array(
        [
            [max(row[a:b].sum() for a in range(end) for b in range(a + 1, end + 1)) for end in range(1, len(row) + 1)]
            for row in v
        ]
    ),
}


def changed(made: Compiled, change: Callable[[dict[str, torch.Tensor]], Any]) -> Compiled:
    """The same with other weights."""
    return dataclasses.replace(made, model=reweighted(made.model, change))


def disagreement(made: Compiled, inputs: np.ndarray, oracle: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Of every sample, the largest error as a part of what sums of these inputs can reach. NaN counts as infinite."""
    with torch.no_grad():
        found = made.model(torch.from_numpy(inputs)[:, :, None].float())[:, :, 0].double().numpy()
    reach = np.abs(np.cumsum(np.abs(inputs), axis=1)).max(axis=1)
    return np.nan_to_num(np.abs(found - oracle(inputs)).max(axis=1), nan=np.inf) / np.where(reach == 0, 1, reach)


# ---- right models


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", library.PROGRAMS)
def test_every_program_of_the_library_gets_its_certificate(name, dtype):
    made = compile(library.get(name, 4), dtype=dtype).verify(samples=40)
    found = made.certificate
    assert found is not None
    assert found.holds
    assert found.counterexample is None
    assert found.bound is not None
    assert found.error <= found.bound <= 150 * torch.finfo(dtype).eps  # at length 4, relative to the largest input
    assert (found.program, found.length, found.domain) == (name, 4, 1000.0)
    assert (found.dtype, found.against) == (str(dtype).removeprefix("torch."), ("the interpreter", "NumPy"))


@pytest.mark.parametrize("domain", [1e-3, 1.0, 0.1, 1e6])
@pytest.mark.parametrize("name", ["cumsum", "sort", "max-subarray", "cummedian", "reduce", "fetch"])
def test_certificates_hold_at_every_domain(name, domain):
    found = compile(library.get(name, 2 if name == "fetch" else 6), domain=domain).verify(samples=40).certificate
    assert found is not None
    assert found.holds


# ---- wrong models


def mutations(made: Compiled, count: int) -> list[Compiled]:
    """Models with one weight of the MLP, of V or of the decoder set to 0, negated, doubled, or swapped with another."""
    rng = np.random.default_rng(5)
    names = ["mlp_in_weight", "mlp_out_weight", "value_weight", "decoder_weight", "encoder_weight"]
    found = []
    for number in range(count):

        def change(held: dict[str, torch.Tensor], number: int = number) -> None:
            flat = held[names[rng.integers(len(names))]].view(-1)
            places = flat.nonzero()[:, 0].tolist()
            at, other = rng.choice(places), rng.integers(len(flat))
            value = flat[at].item()
            if number % 4 == 3:
                flat[at], flat[other] = flat[other].item(), value
            else:
                flat[at] = (0.0, -value, 2 * value)[number % 4]

        found.append(changed(made, change))
    return found


@pytest.mark.parametrize("name", ORACLES)
def test_one_wrong_weight_is_found_with_an_input_that_shows_it(name):
    made = compile(library.get(name, 4), domain=DOMAIN)
    oracle = ORACLES[name]
    rng = np.random.default_rng(8)
    tried = np.concatenate([rng.uniform(-DOMAIN, DOMAIN, (100, 4)), np.round(rng.uniform(-3, 3, (60, 4)))])
    assert disagreement(made, tried, oracle).max() < 1e-6
    wrong = 0
    for broken in mutations(made, 12):
        found = broken.verify(samples=32).certificate
        assert found is not None
        if disagreement(broken, tried, oracle).max() > 1e-4:
            wrong += 1
            assert found.counterexample is not None
        assert found.holds == found.compiled  # two equal weights were swapped; any other change is not the compiler's
        if found.counterexample is not None:
            shown = np.array(found.counterexample)[:, 0]
            assert np.abs(shown).max() <= DOMAIN
            assert disagreement(broken, shown[None], oracle)[0] > 1e-7
            assert found.bound is not None
            assert found.error > found.bound
    assert wrong >= 9  # almost every weight matters


@pytest.mark.parametrize("name", ORACLES)
def test_a_query_of_the_wrong_sign_is_found(name):
    made = compile(library.get(name, 6), domain=DOMAIN)
    for layer in range(made.model.architecture.depth):
        broken = changed(made, lambda held, layer=layer: held["query_weight"][layer].neg_())
        found = broken.verify(samples=16).certificate
        assert found is not None
        assert not found.holds


def test_a_gate_that_does_not_shut_is_found():
    made = compile(library.get("max-subarray", 6), domain=DOMAIN)

    def smaller(held: dict[str, torch.Tensor]) -> None:
        weights = [held["mlp_in_weight"], held["mlp_middle_weight"]]
        assert any((weight.abs() > DOMAIN).any() for weight in weights)
        for weight in weights:
            weight.copy_(torch.where(weight.abs() > DOMAIN, weight / 16384, weight))

    found = changed(made, smaller).verify(samples=16).certificate
    assert found is not None
    assert not found.holds
    assert found.counterexample is not None
    assert disagreement(changed(made, smaller), np.array(found.counterexample).T, ORACLES["max-subarray"])[0] > 1e-6


def test_attention_that_is_only_nearly_a_selection_is_found():
    made = compile(library.get("cumsum", 6), domain=DOMAIN)
    found = changed(made, lambda held: held["query_weight"].mul_(2.0**-8)).verify(samples=16).certificate
    assert found is not None
    assert not found.holds


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_output_that_is_not_finite_fails(value):
    made = compile(library.get("sort", 3), domain=DOMAIN)
    found = changed(made, lambda held: held["decoder_weight"].fill_(value)).verify(samples=2).certificate
    assert found is not None
    assert not found.holds
    assert found.error == np.inf


def squares() -> Program:
    update = {"x": call(product, word("x"), word("x"))}
    return Program(name="square", length=2, nodes=2, registers=("x",), rounds=(Round(update=update),))


def test_a_fitted_model_holds_with_the_bound_of_its_fits_and_fails_where_it_is_not_finite():
    made = compile(squares(), domain=2, fit=9)
    found = made.verify(samples=20).certificate
    assert found is not None
    assert (found.holds, found.relative_to, found.counterexample) == (True, "the domain", None)
    assert found.bound is not None
    assert found.bound == pytest.approx(2 * 1 / 32 / 2, rel=1e-2)  # two lines with knots 1 apart, of z²/4
    assert [name for name, _ in found.fits] == ["product"]
    assert 0.2 * found.bound < found.error <= found.bound
    broken = changed(made, lambda held: held["decoder_weight"].fill_(float("nan")))
    broken_found = broken.verify(samples=20).certificate
    assert broken_found is not None
    assert broken_found.counterexample is not None


@pytest.mark.parametrize("domain", [1e8, 1e9])
def test_a_wrong_place_is_no_small_error_beside_large_numbers(domain, monkeypatch):
    """Places are below 8 where numbers are 10⁸: as a part of the numbers, a place off by 7 would be below 1e-6."""
    monkeypatch.setattr(lower, "check_decisions", lambda *_: None)  # it would refuse such a domain
    made = compile(library.get("argsort", 8), domain=domain)
    keys = np.random.default_rng(0).integers(-domain, domain, (200, 8)).astype(np.float32)
    keys[:, 1] = np.minimum(keys[:, 0] + 1, domain)
    with torch.no_grad():
        found = made.model(torch.from_numpy(keys)[:, :, None])[:, :, 0].numpy()
    assert (found != np.argsort(keys, axis=1, kind="stable")).any()
    certificate = made.verify().certificate
    assert certificate is not None
    assert not certificate.holds


# ---- what an error is


class Constant(torch.nn.Module):
    """A stand-in for a model: the input and something more."""

    def __init__(self, more: list[list[float]]) -> None:
        super().__init__()
        self.more = torch.nn.Parameter(torch.tensor(more, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.more[:, :, None]


@pytest.mark.usefixtures("as_users_run_it")
def test_an_error_is_relative_to_the_largest_input_or_to_the_domain():
    program = Program(name="same", length=2, nodes=2, registers=("x",), rounds=())
    inputs = np.array([[[3.0], [4.0]], [[1.0], [-1.0]], [[0.0], [0.0]], [[0.0], [0.0]]])
    model: Any = Constant([[0.0, 0.7], [0.5, -0.25], [0.125, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(relative_errors(program, model, inputs), [0.7 / 4, 0.5, np.inf, 0.0], rtol=1e-12)
    np.testing.assert_allclose(relative_errors(program, model, inputs, 10.0), [0.07, 0.05, 0.0125, 0.0], rtol=1e-12)


@pytest.mark.usefixtures("as_users_run_it")
def test_the_oracle_is_asked_besides_the_interpreter():
    program = Program(
        name="same", length=2, nodes=2, registers=("x",), rounds=(), oracle=lambda v: v + np.array([0, 2])
    )
    model: Any = Constant([[0.0, 0.0]])
    assert relative_errors(program, model, np.array([[[4.0], [-8.0]]])).tolist() == [0.25]


# ---- what is tried


def test_counts_are_those_of_what_is_tried(monkeypatch):
    seen: list[np.ndarray] = []
    errors = verifying.relative_errors

    def watched(
        program: Program, model: ExactPositionalTransformer, inputs: np.ndarray, scale: float | None, floor: float
    ) -> np.ndarray:
        seen.append(inputs)
        return errors(program, model, inputs, scale, floor)

    monkeypatch.setattr(verifying, "relative_errors", watched)
    found = compile(library.get("sort", 4)).verify(samples=300, seed=3).certificate
    assert found is not None
    assert (found.random, found.adversarial, found.seed) == (300, 22, 3)
    assert found.exhaustive == 3**4 + 4 * 3 * 2  # 0 and 1 are among −1, 0 and 1
    assert found.climbed == 300  # a quarter of them, four times
    assert sum(map(len, seen)) == 300 + 22 + found.exhaustive + found.climbed
    assert max(map(len, seen)) <= verifying.TOGETHER
    assert all(inputs.dtype == np.float32 for inputs in seen)


def test_random_inputs_fill_the_domain_and_small_ranges_too():
    inputs = random_inputs(library.get("sort", 8), 50.0, 400, np.random.default_rng(0))
    assert inputs.shape == (400, 8, 1)
    largest = np.abs(inputs).max(axis=(1, 2))
    assert largest.max() <= 50
    assert (largest[::2] > 40).sum() > 100
    assert (largest[1::2] < 1).sum() > 50
    other = random_inputs(library.get("sort", 8), 50.0, 400, np.random.default_rng(1))
    assert not np.array_equal(inputs, other)


@pytest.mark.parametrize("length", [1, 2, 5, 16])
def test_adversarial_inputs_hold_what_is_promised(length):
    inputs = adversarial_inputs(library.get("cumsum", length), 7.0, np.random.default_rng(0))[:, :, 0]
    assert inputs.shape == (22, length)
    assert np.abs(inputs).max() <= 7
    rows = [row.tolist() for row in inputs]
    for value in (0.0, 7.0, -7.0):
        assert [value] * length in rows  # equal, and the extremes
    drawn = [row for row in rows if len(set(row)) == length]
    if length > 2:
        assert any(row == sorted(row) for row in drawn)
        assert any(row == sorted(row)[::-1] for row in drawn)
        assert any(1 < len(set(row)) < length and 0 not in row for row in rows)  # ties
        assert any(set(row) == {7.0, -7.0} for row in rows)
        assert any(0 < max(np.diff(sorted(row))) < 1e-6 for row in rows)  # close neighbours


def test_close_neighbours_lie_one_step_of_the_grid_apart():
    inputs = adversarial_inputs(library.get("argsort", 8), 1000.0, np.random.default_rng(0))[:, :, 0]
    assert any(np.array_equal(np.sort(row), np.arange(993, 1001)) and (np.diff(row) < 0).any() for row in inputs)


@pytest.mark.parametrize("length", [1, 2, 3, 6, 7, 11, 12])
def test_exhaustive_inputs_are_all_of_them_and_none_twice(length):
    found = {tuple(row) for row in exhaustive_inputs(library.get("sort", length), 2.0)[:, :, 0].tolist()}
    expected: set[tuple[float, ...]] = set()
    if length <= 11:
        expected |= set(itertools.product([0.0, 2.0], repeat=length))
    if length <= 6:
        expected |= set(itertools.product([-2.0, 0.0, 2.0], repeat=length))
        expected |= set(itertools.permutations([2.0 * (2 * k - length + 1) / length for k in range(length)]))
    assert found == expected
    assert len(exhaustive_inputs(library.get("sort", length), 2.0)) == len(expected)


def test_inputs_of_a_program_on_a_grid_lie_on_it():
    program = library.get("argsort", 5, grid=0.25)
    rng = np.random.default_rng(0)
    groups = (
        random_inputs(program, 3.3, 50, rng),
        adversarial_inputs(program, 3.3, rng),
        exhaustive_inputs(program, 3.3),
    )
    for inputs in groups:
        assert np.array_equal(inputs * 4, np.round(inputs * 4))
        assert np.abs(inputs).max() == 3.25  # the last multiple within the domain


@pytest.mark.parametrize(
    ("domain", "grid", "count"), [(0.3, 0.1, 3), (0.7, 0.1, 7), (1000, 0.1, 10_000), (0.99, 1, 0), (3.3, 0.25, 13)]
)
def test_steps_of_a_grid_are_counted_as_one_would_by_hand(domain, grid, count):
    assert steps(domain, grid) == count


def test_inputs_that_are_permutations_hold_all_of_them_where_they_are_few():
    program = library.get("fetch", 4)
    inputs = random_inputs(program, 9.0, 30, np.random.default_rng(0))
    assert {tuple(row) for row in inputs[:, :, 1].tolist()} == set(itertools.permutations(range(4)))
    assert np.abs(inputs[:, :, 0]).max() <= 9
    for length in (4, 9):
        program = library.get("fetch", length)
        for found in (adversarial_inputs(program, 9.0, np.random.default_rng(0)), exhaustive_inputs(program, 9.0)):
            assert (np.sort(found[:, :, 1], axis=1) == np.arange(length)).all()


def test_two_inputs_are_tried_with_different_values():
    program = Program(
        name="difference",
        length=3,
        nodes=3,
        registers=("a", "b"),
        inputs=("a", "b"),
        outputs=("a",),
        rounds=(Round(update={"a": word("a") - word("b")}),),
    )
    nasty = adversarial_inputs(program, 1.0, np.random.default_rng(0))
    assert (nasty[:, :, 0] != nasty[:, :, 1]).any(axis=1).sum() > 12
    everything = {tuple(row) for row in exhaustive_inputs(program, 1.0).reshape(-1, 6).tolist()}
    assert set(itertools.product([-1.0, 0.0, 1.0], repeat=6)) <= everything
    made = compile(program, domain=1.0).verify(samples=1)
    assert made.certificate is not None
    assert made.certificate.holds


# ---- the certificate itself


@pytest.fixture(scope="module")
def failing() -> Certificate:
    made = compile(library.get("fetch", 3), domain=5)
    found = changed(made, lambda held: held["decoder_weight"].mul_(1.5)).verify(samples=4).certificate
    assert found is not None
    return found


def test_a_certificate_comes_back_from_json(failing):
    right = compile(library.get("argsort", 3, grid=0.5), domain=4).verify(samples=4).certificate
    fitted = compile(squares(), domain=2, fit=9).verify(samples=4).certificate
    for found in (failing, right, fitted, dataclasses.replace(failing, error=float("inf"))):
        assert found is not None
        back = Certificate.from_json(found.to_json())
        assert back == found
        assert hash(back) == hash(found)


def test_a_certificate_reads_as_text(failing):
    assert str(failing).startswith("fetch, length 3, float32, inputs in ±5: FAILS, first at input [(")
    right = compile(library.get("argsort", 3, grid=0.5), domain=4).verify(samples=4).certificate
    assert str(right) == (
        "argsort, length 3, float32, inputs in ±4 on a grid of 0.5: holds.\n"
        "4 random, 22 adversarial, 33 exhaustive and 1 searched inputs, against the interpreter and NumPy: largest "
        "error 0 of the domain; no input exceeds 0. 2 shorter inputs were tried too."
    )
    fitted = str(compile(squares(), domain=2, fit=9).verify(samples=4).certificate)
    assert "against the interpreter: largest" in fitted
    assert "; product fitted to 0." in fitted
    assert "no input exceeds 0.031; product" in fitted
    long = dataclasses.replace(failing, counterexample=((1.0,),) * 40)
    assert len(str(long)) < 500


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", "{}", "[" * 100_000, '{"against": [], "fits": [], "counterexample": null}']
)
def test_what_is_no_certificate_is_refused(text):
    with pytest.raises(PosattnError, match="not a certificate"):
        Certificate.from_json(text)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("change", [{"domain": "x"}, {"error": None}, {"fits": [3]}, {"against": 7}, {"more": 1}])
def test_a_certificate_with_a_wrong_entry_is_refused(failing, change):
    with pytest.raises(PosattnError, match="not a certificate"):
        Certificate.from_json(json.dumps(json.loads(failing.to_json()) | change))


@pytest.mark.parametrize(("options", "said"), [({"samples": 0}, "samples=0"), ({"seed": -1}, "seed=-1")])
def test_bad_options_of_verify_are_refused(options, said):
    with pytest.raises(PosattnError, match=said):
        compile(library.get("sort", 2)).verify(**options)


def test_a_model_in_half_precision_is_not_verified():
    made = compile(library.get("sort", 2))
    broken = dataclasses.replace(made, model=copy.deepcopy(made.model).half())
    with pytest.raises(PosattnError, match=r"the model is torch\.float16: verify it in torch\.float32"):
        broken.verify()


def test_shorter_inputs_that_are_filled_up_wrongly_fail_the_certificate():
    """Reversing what was filled up puts the filling first; filled up with −1 · domain, a minimum is that."""
    reversed_ = dataclasses.replace(
        library.get("permute", 4, route="direct"), pad=0.0, recipe=None, oracle=lambda v: v[:, ::-1]
    )
    least = dataclasses.replace(library.get("reduce", 4, operation="min"), pad=-1.0, recipe=None)
    for program in (reversed_, least):
        found = compile(program, domain=5).verify(samples=40).certificate
        assert found is not None
        assert not found.holds
        assert found.counterexample is not None
        assert len(found.counterexample) < 4
        assert found.shorter == 9
        fixed = compile(dataclasses.replace(program, pad=None), domain=5).verify(samples=40).certificate
        assert fixed is not None
        assert (fixed.holds, fixed.shorter) == (True, 0)
