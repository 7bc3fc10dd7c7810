"""Compiled models compute what their programs do, exactly, in the model class that is trained."""

import re

import numpy as np
import pytest
import torch

from compile import trees
from posattn import PosattnError, PositionalTransformer
from posattn.compile import compile, library
from posattn.compile.expressions import call, exchange, gate, positive, product, relu, select, word
from posattn.compile.interpreter import run, trace
from posattn.compile.lowering.lower import Lowered, lower
from posattn.compile.lowering.register_bounds import register_bounds
from posattn.compile.program import Program
from posattn.compile.rounds import Round, reads

x, y, s = word("x"), word("y"), word("s")


def computed(lowered: Lowered, inputs: np.ndarray) -> np.ndarray:
    dtype = lowered.model.get_buffer("encoding").dtype
    with torch.no_grad():
        return lowered.model(torch.from_numpy(inputs).to(dtype)).double().numpy()


def states(lowered: Lowered, inputs: np.ndarray) -> list[torch.Tensor]:
    """The state after the encoder and after every layer: (batch, nodes, embed_dim)."""
    return [step.state for step in lowered.model.trace(torch.from_numpy(inputs))[:-1]]


def test_compiled_programs_equal_a_loop_over_nodes_exactly():
    sinks = 0
    for seed in range(90):
        case = trees.any_case(seed)
        lowered = lower(case.program, domain=4, dtype=torch.float64)
        inputs = trees.whole_inputs(case.program, seed)
        np.testing.assert_array_equal(computed(lowered, inputs), trees.simulated(case, inputs), f"seed {seed}")
        model, nodes = lowered.model, case.program.nodes
        assert model.architecture.layers == max(1, len(case.program.rounds))
        assert model.architecture.nodes in (nodes, nodes + 1)
        if model.architecture.nodes > nodes:
            assert all((state[:, -1] == 0).all() for state in states(lowered, inputs)), f"seed {seed}"
            sinks += 1
    assert sinks > 24


def test_attention_of_compiled_programs_is_zeros_and_ones_in_float32():
    for seed in range(15):
        weights = lower(trees.any_case(seed, nodes=4).program, domain=4).model.attention()
        assert ((weights == 0) | (weights == 1)).all()
        assert (weights.sum(-1) == 1).all()


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_registers_and_words_stay_within_their_bounds(name):
    made = library.get(name, 7)
    generator = np.random.default_rng(0)
    inputs = generator.choice([-9.0, -4.0, 0.0, 5.0, 9.0], (60, 7, len(made.inputs)))
    for column, register in enumerate(made.inputs):
        if register in made.permutations:
            inputs[:, :, column] = generator.permuted(np.tile(np.arange(7.0), (60, 1)), axis=1)
    found = register_bounds(made, 9)
    before = next(iter(trace(made, inputs))).registers
    for (registers, words), snapshot in zip(found, [*trace(made, inputs)][1:], strict=False):
        for held, values in ((registers, before), (words, snapshot.received)):
            for register, value in values.items():
                assert (held[register].low <= value).all(), register
                assert (value <= held[register].high).all(), register
        before = snapshot.registers


def test_a_compiled_model_is_a_positional_transformer_without_biases():
    lowered = lower(library.sort(5), domain=10)
    assert isinstance(lowered.model, PositionalTransformer)
    assert not lowered.model.architecture.bias
    biases = {name: held for name, held in lowered.model.weights().items() if "bias" in name}
    assert set(biases) <= {"query_bias", "key_bias"}
    assert all((held == 0).all() for held in biases.values())
    assert lowered.registers[: len(library.sort(5).registers)] == library.sort(5).registers


def test_the_register_of_ones_is_there_only_where_constants_are_computed_with():
    held = lambda rounds: lower(program(rounds), domain=1).registers  # noqa: E731
    assert held((Round(update={"y": 2 * x}),)) == ("x", "y")
    assert held((Round(update={"y": x + 1}),)) == ("x", "y", "one")
    assert held((Round(update={"y": relu(relu(1 - x) - x)}),)) == ("x", "y", "one")
    assert held((Round(update={"x": x + 1, "y": x}),)) == ("x", "y")  # x is not read any more


def program(rounds: tuple[Round, ...], nodes: int = 3, grid: float | None = None) -> Program:
    return Program(name="p", length=nodes, nodes=nodes, registers=("x", "y"), rounds=rounds, outputs=("y",), grid=grid)


def test_slots_that_read_the_same_nodes_share_a_head():
    swap, turn = [1, 0, 2], [1, 2, 0]
    two = Round(receive={"s": reads("x", swap), "t": reads("y", swap), "u": reads("x", swap)},
                update={"y": s + 2 * word("t") - 3 * word("u")})  # fmt: skip
    more = Round(receive={"s": reads("x", swap), "t": reads("x", turn), "dead": reads("x", [0, 0, 0])},
                 update={"y": s + word("t")})  # fmt: skip
    first = Round(update={"y": 2 * x})
    assert lower(program((first, two)), domain=1).model.architecture.heads == 1
    assert lower(program((first, more)), domain=1).model.architecture.heads == 2
    inputs = np.array([[[1.0], [2.0], [4.0]]])
    found = computed(lower(program((first, two, more)), domain=4, dtype=torch.float64), inputs)
    assert found.tolist() == run(program((first, two, more)), inputs).tolist() == [[[4], [5], [5]]]


@pytest.mark.parametrize(
    ("made", "encoding", "nodes"),
    [
        (library.sort(8), "binary", 8),
        (library.sort(256), "binary", 256),
        (library.cumsum(16), "parabolic", 17),
        (library.cummax(16), "parabolic", 16),
        (library.broadcast(9, source=4), "parabolic", 9),
        (library.permute(9, route="direct"), "parabolic", 9),
        (library.sort(7), "one-hot", 7),
        (library.permute(64, route="direct", destinations=np.random.default_rng(0).permutation(64).tolist()),
         "targets", 64),
    ],
)  # fmt: skip
def test_the_encoding_is_the_one_for_the_pattern(made, encoding, nodes):
    lowered = lower(made, domain=10)
    assert lowered.encoding == encoding
    assert lowered.model.architecture.nodes == nodes


def test_nothing_small_is_lost_beside_gates_of_a_large_domain():
    """1e-3 moves through selections and sorting while gates of 2^40 stand by; exchange rounds to the larger number."""
    held = program((Round(receive={"s": reads("x", [1, 2, 0])}, update={"y": gate(s, shut=relu(0 * x))}),), grid=1e-3)
    small = np.array([[[1e-3], [2e-3], [-3e-3]]])
    found = computed(lower(held, domain=2.0**40, dtype=torch.float64), small)
    assert found[0, :, 0].tolist() == [2e-3, -3e-3, 1e-3]
    kept = computed(lower(library.sort(3), domain=2.0**40, dtype=torch.float64), small)
    np.testing.assert_allclose(kept[0, :, 0], [-3e-3, 1e-3, 2e-3], rtol=1e-15)


def test_a_scan_of_5000_numbers_has_small_weights_and_equals_numpy():
    made = lower(library.cumsum(5000), domain=8)
    assert made.encoding == "digits"
    assert made.model.architecture.encoding_width == 43  # four columns, and three for each of 13 shifts
    x = np.random.default_rng(0).integers(-8, 9, (1, 5000, 1)).astype(np.float32)
    with torch.no_grad():
        found = made.model(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(found, np.cumsum(x, axis=1))


def test_a_domain_too_large_for_the_weights_is_refused():
    with pytest.raises(PosattnError, match=r"mlp_in_weight: too large for torch.float32. Compile for a smaller domain"):
        lower(library.sort(4), domain=1e38)
    assert lower(library.sort(4), domain=1e38, dtype=torch.float64)


@pytest.mark.parametrize("domain", [0, -1, float("inf"), float("nan")])
def test_a_domain_is_a_finite_number_above_zero(domain):
    with pytest.raises(PosattnError, match=f"domain={domain}: inputs lie in ±domain"):
        lower(library.cumsum(4), domain=domain)


OUTSIDE = (
    Round(update={"y": call(product, x, x) - call(np.tanh, x, name="tanh")}),
    Round(receive={"s": reads("y", [1, 2, None])}, update={"y": exchange(s, call(np.exp, y), upper=0 * y)}),
)


def test_functions_from_outside_are_refused_with_every_place():
    with pytest.raises(PosattnError) as raised:
        lower(program(OUTSIDE), domain=2)
    assert str(raised.value).splitlines() == [
        "program 'p' cannot be compiled exactly:",
        "  - round 1, register 'y': product(x, x) is not piecewise linear",
        "  - round 1, register 'y': tanh(x) is not piecewise linear",
        "  - round 2, register 'y': exp(y) is not piecewise linear",
        "Allow a fit, fit=64, or change it.",
    ]


@pytest.mark.parametrize("knots", [9, 65, 513])
def test_fitted_functions_err_by_no_more_than_the_fits_say(knots):
    """In one round, where errors add up; the model's errors shrink with the square of the knots."""
    lowered = lower(program(OUTSIDE[:1]), domain=2, fit=knots, dtype=torch.float64)
    assert [fit.function for fit in lowered.fits] == ["product", "product", "tanh"]
    inputs = np.random.default_rng(0).uniform(-2, 2, (2000, 3, 1))
    error = np.abs(computed(lowered, inputs) - run(program(OUTSIDE[:1]), inputs)).max()
    promised = sum(fit.error for fit in lowered.fits)
    assert 0 < error <= promised + 1e-14
    assert promised < 30 / (knots - 1) ** 2


def test_fits_are_listed_round_by_round_and_once_in_each():
    twice = Round(update={"y": call(np.tanh, x, name="tanh") + 2 * call(np.tanh, x, name="tanh")})
    assert [fit.round for fit in lower(program((twice, twice)), domain=2, fit=8).fits] == [1, 2]


def test_an_input_of_another_length_is_refused():
    lowered = lower(library.cumsum(4), domain=1)
    with pytest.raises(PosattnError, match=re.escape("the input has length 3 and the model was compiled for 4")):
        lowered.model(torch.zeros(1, 3, 1))


def test_registers_nobody_reads_cost_no_units():
    wasteful = Round(update={"y": x, "x": gate(relu(relu(x - 1) - y), shut=relu(x))})
    first = Round(update={"y": x})
    lean, same = (lower(program(rounds, grid=1.0), domain=1).model.architecture
                  for rounds in ((first, Round(update={"y": x})), (first, wasteful)))  # fmt: skip
    assert (lean.hidden_dim, lean.mlp_layers) == (same.hidden_dim, same.mlp_layers)


def test_composed_programs_compile():
    both = library.sort(5).then(library.cumsum(5))
    inputs = np.random.default_rng(0).integers(-9, 10, (20, 5, 1)).astype(np.float64)
    found = computed(lower(both, domain=9, dtype=torch.float64), inputs)
    np.testing.assert_array_equal(found, np.cumsum(np.sort(inputs, axis=1), axis=1))


def test_decisions_by_numbers_that_need_not_be_whole_are_refused_with_every_place():
    rounds = (
        Round(update={"y": gate(x, shut=x)}),
        Round(receive={"s": reads("y", [1, 2, 0])}, update={"y": select(positive(s), x, 0 * x)}),
    )
    with pytest.raises(PosattnError) as caught:
        lower(program(rounds), domain=5)
    assert "round 1, register 'y': gate(x, shut=x) decides by x, which can be any number" in str(caught.value)
    assert "round 2, register 'y': [s > 0] decides by s, which can be any number" in str(caught.value)
    assert lower(program(rounds, grid=1.0), domain=5)


def test_on_a_grid_of_tenths_fewer_steps_are_allowed():
    rounds = (Round(update={"y": positive(x, grid=0.1)}),)
    said = "steps of 0.1, and rounding in torch.float32 can move them by more than a quarter of a step. Use a smaller"
    with pytest.raises(PosattnError, match=said):
        lower(program(rounds, grid=0.1), domain=100_000)
    assert lower(program(rounds, grid=0.1), domain=50_000)
    assert lower(program((Round(update={"y": positive(x, grid=0.125)}),), grid=0.125), domain=200_000)


def test_argsort_on_a_grid_of_tenths_is_right_up_to_its_limit():
    made = compile(library.get("argsort", 64, grid=0.1), domain=390)
    keys = np.random.default_rng(0).choice([390.0, 389.9, -390.0, -389.9], (500, 64))
    found = made(torch.from_numpy(keys)).numpy()
    np.testing.assert_array_equal(found, np.argsort(np.round(10 * keys), axis=1, kind="stable"))
