"""Where the order of summation cannot matter: against models added up in random orders, with fused products or not."""

from typing import Any

import numpy as np
import pytest
import torch

from compile.models import library_model
from posattn.compile import Compiled, Program, Round, compile, gate, maximum, reads, relu, select, word
from posattn.compile.summation_order import order_matters
from posattn.compile.verify_inputs import adversarial_inputs, random_inputs

Array = np.ndarray


def added(x: Array, matrix: Array, rng: np.random.Generator, *, fused: bool) -> Array:
    """x·matrix in float32, term by term in a random order; a fused product is not rounded before it is added."""
    total = np.zeros((*x.shape[:-1], matrix.shape[1]), np.float32)
    for row in rng.permutation(len(matrix)):
        if fused:
            product = x[..., row, None].astype(np.float64) * matrix[row].astype(np.float64)
            total = (total + product).astype(np.float32)
        else:
            total = total + x[..., row, None] * matrix[row]
    return total


def ran(compiled: Compiled, x: Array, rng: np.random.Generator, *, fused: bool) -> Array:
    """The model's formula with reads in place of attention."""
    sizes, reads = compiled.model.architecture, compiled.model.harden().reads.numpy()
    w = {name: tensor.detach().numpy() for name, tensor in compiled.model.weights().items()}
    constants = w.get("constants", np.zeros((sizes.nodes, 0), np.float32))
    beside = np.broadcast_to(constants, (len(x), *constants.shape))
    x = np.pad(x, ((0, 0), (0, sizes.nodes - x.shape[1]), (0, 0)))
    state = added(np.concatenate([x, beside], axis=2), w["encoder_weight"], rng, fused=fused)
    for layer in range(sizes.depth):
        values = added(state, w["value_weight"][layer], rng, fused=fused)
        heads = np.split(values, sizes.heads, axis=2)
        read = np.concatenate([held[:, reads[layer, head]] for head, held in enumerate(heads)], axis=2)
        attended = added(read, w["output_weight"][layer], rng, fused=fused)
        hidden = np.concatenate([state, attended], axis=2)
        middle = w["mlp_middle_weight"][layer] if "mlp_middle_weight" in w else ()
        for matrix in (w["mlp_in_weight"][layer], *middle):
            hidden = np.maximum(added(hidden, matrix, rng, fused=fused), 0)
        state = added(hidden, w["mlp_out_weight"][layer], rng, fused=fused)
    return added(state, w["decoder_weight"], rng, fused=fused)[:, : sizes.length]


def differs(compiled: Compiled) -> bool:
    """Whether two orders of summation were found that give different outputs."""
    rng = np.random.default_rng(5)
    drawn = [
        random_inputs(compiled.program, compiled.domain, 100, rng),
        adversarial_inputs(compiled.program, compiled.domain, rng),
    ]
    x = np.concatenate(drawn).astype(np.float32)
    first = ran(compiled, x, rng, fused=False)
    return any(not np.array_equal(first, ran(compiled, x, rng, fused=bool(k % 2))) for k in range(6))


def order(compiled: Compiled) -> str | None:
    return order_matters(
        compiled.program, compiled.model, registers=compiled.registers, domain=compiled.domain, fits=compiled.lines
    )


def one_round(*updates: Any, **options: Any) -> Compiled:
    """A program that updates x by one expression per round, from x, y (that of the next node) and z (the one after)."""
    n = 4
    tables = {
        "y": reads("x", [(i + 1) % n for i in range(n)]),
        "z": reads("x", [(i + 2) % n for i in range(n)]),
    }
    rounds = tuple(Round(receive=tables, update={"x": update}) for update in updates)
    held: dict[str, Any] = {"name": "one", "length": n, "nodes": n, "registers": ("x",), "rounds": rounds}
    return compile(Program(**(held | options)))


X, Y, Z = word("x"), word("y"), word("z")
BITS: dict[str, Any] = {
    "registers": ("x", "bit", "other"),
    "constants": {"bit": (0.0, 1.0, 0.0, 1.0), "other": (1.0, 0.0, 1.0, 0.0)},
}

LARGE: dict[str, Any] = {"registers": ("x", "c"), "constants": {"c": (3001.0,) * 4}}


@pytest.mark.parametrize("name", ["sort", "cumsum", "cummin", "kth", "merge", "reduce", "permute", "broadcast"])
@pytest.mark.parametrize("length", [1, 5])
def test_library_programs_of_two_terms_come_out_the_same_in_every_order(name: str, length: int) -> None:
    compiled = library_model(name, length)
    assert order(compiled) is None
    assert not differs(compiled)


@pytest.mark.parametrize(
    "compiled",
    [
        one_round(X + Y, X - Y, 4 * X + 2 * Y),
        one_round(0.3 * X, 0.1 * Y),
        one_round(maximum(X, Y), relu(X - Y)),
        one_round(gate(X, shut=word("bit")), **BITS),
        one_round(select(word("bit"), X, Y, unless=word("other")), **BITS),
        one_round(X + gate(Y + Z, shut=word("shut")), registers=("x", "shut"), constants={"shut": (1.0,) * 4}),
    ],
    ids=["sums of two", "products alone", "a maximum", "a gate", "a choice", "three terms behind a shut gate"],
)
def test_small_programs_of_two_terms_come_out_the_same_in_every_order(compiled: Compiled) -> None:
    assert order(compiled) is None
    assert not differs(compiled)


@pytest.mark.parametrize(
    ("compiled", "why"),
    [
        (library_model("max-subarray", 5), "a sum of 3 terms that need not be 0, in the MLP's output of layer 0"),
        (one_round(X + Y, X + Y + Z), "a sum of 3 terms that need not be 0, in the MLP's output of layer 1"),
        (one_round(relu(X + Y + Z)), "a sum of 3 terms that need not be 0, in a hidden layer of layer 0"),
        (one_round(relu(X) + relu(Y) + relu(Z)), "a sum of 3 terms that need not be 0, in the MLP's output of layer 0"),
        (one_round(relu(-X) + relu(-Y) + relu(-Z)), "a sum of 3 terms that need not be 0, in the MLP's output"),
        (one_round(X + 0.3 * word("c"), **LARGE), "a sum of 2 terms with products that are rounded, in the MLP's"),
        (one_round(0.3 * X + 0.7 * Y), "a sum of 2 terms with products that are rounded, in the MLP's output"),
    ],
    ids=["max-subarray", "three terms", "three terms below", "units", "units below 0", "a constant", "products"],
)
def test_where_two_orders_differ_nothing_is_claimed(compiled: Compiled, why: str) -> None:
    assert differs(compiled)
    assert (order(compiled) or "").startswith(why)


def test_a_factor_below_1_can_underflow_and_is_not_taken_as_exact() -> None:
    """6/4 and 3/4 of the smallest number: 2 + 1, or with a fused product 1 + 1.5, which is rounded to 2."""
    compiled, rng = one_round(0.25 * X + 0.25 * Y), np.random.default_rng(0)
    x = np.ldexp(np.array([[[6.0], [3.0], [6.0], [3.0]]]), -149).astype(np.float32)
    found = {float(ran(compiled, x, rng, fused=True)[0, 0, 0]) for _ in range(20)}
    assert found == {2 * 2.0**-149, 3 * 2.0**-149}
    assert "products that are rounded" in (order(compiled) or "")


def test_a_weight_that_is_no_power_of_two_is_seen_in_the_encoder_and_the_decoder() -> None:
    for name in ("encoder", "decoder"):
        compiled = compile(library_model("sort", 2).program)
        with torch.no_grad():
            compiled.model.get_submodule(name).get_parameter("weight").fill_(0.3)
        assert f"in the {name}" in (order(compiled) or "")
