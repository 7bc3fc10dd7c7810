"""Proofs of whole models: what they find, and that no input exceeds their bound."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from compile import trees
from compile.models import library_model
from posattn import PosattnError
from posattn.compile import Compiled, Program, Round, absolute, compile, library, maximum, relu, run, word
from posattn.compile.proof.findings import Outcome
from posattn.compile.proof.largest_error import largest_error
from posattn.compile.proof.prove import rounded_up
from posattn.nn import model_of


def spoilt(made: Compiled, tensor: str, place: tuple[int, ...], value: float) -> Compiled:
    weights = {name: held.detach().clone() for name, held in made.model.weights().items()}
    weights[tensor][place] = value
    return replace(made, model=model_of(made.model.architecture, weights))


def outcomes(made: Compiled) -> dict[int, Outcome]:
    return {step.number: step.outcome for step in made.prove().steps}


def test_a_wrong_weight_is_found_with_its_layer_and_register():
    made = library_model("max-subarray", 4)
    place = made.registers.index("start")
    unit = int(made.model.weights()["mlp_out_weight"][0][:, place].nonzero()[0])
    proof = spoilt(made, "mlp_out_weight", (0, unit, place), 1.5).prove()
    assert not proof.holds
    assert proof.bound is None
    assert proof.steps[1].outcome is Outcome.REFUTED
    assert proof.steps[1].detail.startswith("Not so in layer 0, register 'start', node ")
    assert proof.steps[3].detail == "it rests on step 2"


def test_a_constant_that_a_layer_rounds_on_its_way_is_not_exact_any_more():
    # (3c)/16 + (13c)/16 is c, but not in float32; what K·(c − d) is then, with d = c, the proof must not take for 0
    value = 0.9066351056098938
    x, c, d, e = map(word, "xcde")
    bends = relu(x - 3) + relu(x - 20) + relu(x - 40) + relu(x - 60)  # for their hidden units
    program = Program(
        name="carry", length=1, nodes=1, registers=("x", "c", "d", "e", "y"), outputs=("x", "y"),
        constants={"c": (value,), "d": (value,), "e": (1.0,), "y": (0.0,)},
        rounds=(
            Round(update={"x": x + e}),
            Round(update={"x": x + c + d + e}),
            Round(update={"y": absolute(x) + maximum(x, 7) + bends}),
        ),
    )  # fmt: skip
    made = compile(program)
    assert made.prove().holds
    weights = {name: held.detach().clone() for name, held in made.model.weights().items()}
    first, last = weights["mlp_in_weight"], weights["mlp_out_weight"]
    first[:2] = last[:2] = 0
    one = made.registers.index("one")
    units = {0: [(0, 1.0, 0, 1.0), (0, -1.0, 0, -1.0), (3, 1.0, 0, 1.0), (1, 3.0, 1, 1 / 16), (1, 13.0, 1, 1 / 16)]}
    units[0] += [(3, 1.0, 3, 1.0), (2, 1.0, 2, 1.0), (one, 1.0, one, 1.0)]
    for unit, (row, weight, to, back) in enumerate(units[0]):
        first[0, row, unit], last[0, unit, to] = weight, back
    assert replace(made, model=model_of(made.model.architecture, _as_compiled(made, weights, 1))).prove().holds
    weights["value_weight"][1, 1, 0], weights["value_weight"][1, 2, 0] = 1.0, -1.0
    for unit, (row, weight, back) in enumerate([(0, 1.0, 1.0), (0, -1.0, -1.0)]):
        first[1, row, unit], last[1, unit, 0] = weight, back
    first[1, [1, 2, 3], 2], last[1, 2, 0] = 1.0, 1.0
    for unit, (steep, back) in enumerate(((2.0**26, 1.0), (0.0, -2.0), (-(2.0**26), 1.0)), 3):
        first[1, 0, unit], first[1, 3, unit], first[1, len(first[1]) // 2, unit], last[1, unit, 0] = (
            1.0, -387.0, steep, back,
        )  # fmt: skip
    first[1, one, 6], last[1, 6, one] = 1.0, 1.0
    spoilt_twice = replace(made, model=model_of(made.model.architecture, weights))
    given = torch.tensor([[[386.0]]])
    off = spoilt_twice.model(given).flatten()[0].item() - run(program, given.double().numpy()).flatten()[0]
    assert abs(off) > 1
    assert not spoilt_twice.prove().holds


def _as_compiled(made: Compiled, weights: dict[str, torch.Tensor], start: int) -> dict[str, torch.Tensor]:
    """These weights, and the compiler's own from some layer on."""
    mixed = {name: held.clone() for name, held in weights.items()}
    for name in ("mlp_in_weight", "mlp_out_weight"):
        mixed[name][start:] = made.model.weights()[name][start:].detach()
    return mixed


@pytest.mark.parametrize(
    ("update", "domain"),
    [(word("x") + 1_000_000 - 1_000_000, 1000), (maximum(1 / 3, word("x")), 10), (maximum(word("x"), 2 / 3), 10)],
)
def test_what_long_doubles_round_refutes_nothing(update, domain):
    rounds = (Round(update={"x": update}), Round(update={"x": relu(word("x"))}))
    program = Program(name="p", length=2, nodes=2, registers=("x",), rounds=rounds)
    proof = compile(program, domain=domain, dtype=torch.float64).prove()
    assert proof.holds, str(proof)


def test_a_program_in_fractions_is_exact():
    program = library.get("cumsum", 3)
    x = np.array([[[Fraction(1, 3)], [Fraction(10**20)], [Fraction(-(10**20))]]], dtype=object)
    assert run(program, x).flatten().tolist() == [Fraction(1, 3), Fraction(1, 3) + 10**20, Fraction(1, 3)]


def test_attention_that_reads_another_node_is_refuted_by_the_layer_and_none_at_all_by_attention():
    made = library_model("cumsum", 4)
    other = {name: held.detach().clone() for name, held in made.model.weights().items()}
    other["query_weight"][1] = other["query_weight"][0]
    swapped = replace(made, model=model_of(made.model.architecture, other))
    assert outcomes(swapped)[1] is Outcome.STANDS
    assert outcomes(swapped)[2] is Outcome.REFUTED
    other["query_weight"][1] = 0
    nowhere = replace(made, model=model_of(made.model.architecture, other))
    assert outcomes(nowhere)[1] is Outcome.REFUTED
    assert outcomes(nowhere)[2] is outcomes(nowhere)[4] is Outcome.OPEN


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "length"), [("cumsum", 9), ("sort", 4), ("max-subarray", 3)])
def test_no_input_that_a_search_finds_exceeds_the_bound(name, length, dtype):
    made = library_model(name, length, dtype=dtype)
    bound = made.prove().bound
    found = largest_error(made.program, made.model, made.domain, starts=32, seed=1)
    assert bound is not None
    assert 0 < found <= bound <= 20 * found


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_that_are_proved_stay_within_their_bound(seed):
    case = trees.any_case(seed)
    made = compile(case.program, domain=4.0)
    proof = made.prove(seconds=20)
    x = trees.whole_inputs(case.program, seed, samples=20)
    with torch.no_grad():
        found = made.model(torch.from_numpy(x).float()).double().numpy()
    assert proof.holds
    assert proof.bound is not None
    assert abs(found - trees.simulated(case, x)).max() <= proof.bound


def test_a_bound_of_0_means_that_no_operation_rounds():
    made = library_model("argsort", 3)
    assert made.prove().bound == 0
    assert largest_error(made.program, made.model, made.domain, starts=32) == 0


def test_bounds_are_shown_rounded_up():
    assert rounded_up(0.1234561) == "0.123457"
    bound = library_model("cummin", 7).prove().bound
    assert bound is not None
    assert f"≤ {rounded_up(bound)} in float32" in str(library_model("cummin", 7).prove())
    assert float(f"{bound:.6g}") < bound <= float(rounded_up(bound))
    assert rounded_up(2.0**-149).endswith("e-45")


def test_half_precision_and_weights_that_are_no_numbers_are_refused():
    made = compile(library.get("cumsum", 4))
    with pytest.raises(PosattnError, match="NaN or infinite"):
        spoilt(made, "key_weight", (0, 0, 0), float("nan")).prove()
    with pytest.raises(PosattnError, match=r"the model is torch.float16: prove it in torch.float32 or torch.float64"):
        replace(made, model=made.model.half()).prove()
