"""Step 1 against softmax itself, in the model's own dtype: what is said to select gives exactly 1 and 0."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn.compile.proof.attention import prove_selection
from posattn.compile.proof.findings import Outcome, TimeLimit
from posattn.compile.proof.precision import PRECISIONS


def attention(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """softmax(q·kᵀ/√d) of layer 0, with one head."""
    p = weights["encoding"]
    query, key = (p @ weights[f"{name}_weight"][0] + weights[f"{name}_bias"][0] for name in ("query", "key"))
    return (query @ key.T / p.shape[1] ** 0.5).softmax(-1)


def proved(weights: dict[str, torch.Tensor], used: set[int]):
    precision = PRECISIONS[weights["encoding"].dtype]
    return prove_selection(weights, heads=1, used=[used], precision=precision, limit=TimeLimit())


def drawn(seed: int, scale: float, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    nodes, width = int(rng.integers(2, 8)), int(rng.integers(1, 5))
    rough = int(rng.integers(0, 2))  # whole numbers, or any
    make = [lambda *shape: rng.integers(-3, 4, shape).astype(float), lambda *shape: rng.normal(size=shape)][rough]
    shapes = {"query_weight": (1, width, width), "key_weight": (1, width, width), "query_bias": (1, width)}
    held = {name: make(*shape) * scale for name, shape in shapes.items()} | {"key_bias": make(1, width)}
    return {name: torch.from_numpy(v).to(dtype) for name, v in ({"encoding": make(nodes, width)} | held).items()}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 8.0, 64.0, 1e3, 1e5]), st.sampled_from(list(PRECISIONS)))
def test_what_is_said_to_select_gives_softmax_of_exactly_one_and_zero(seed, scale, dtype):
    weights = drawn(seed, scale, dtype)
    found, held = proved(weights, {0}), attention(weights)
    if found.finding.outcome is Outcome.STANDS:
        wanted = torch.zeros_like(held)
        wanted[torch.arange(len(held)), torch.from_numpy(found.reads[0][0])] = 1
        assert torch.equal(held, wanted)
    elif found.finding.outcome is Outcome.REFUTED:
        margin = float(found.finding.detail.split("only ")[1].split()[0])
        assert margin <= PRECISIONS[dtype].never


def test_both_answers_occur():
    found = {proved(drawn(seed, 1e3, torch.float32), {0}).finding.outcome for seed in range(30)}
    assert found >= {Outcome.STANDS, Outcome.REFUTED}


def test_equal_logits_are_refuted_with_layer_and_head():
    weights = drawn(0, 0.0, torch.float32)
    found = proved(weights, {0}).finding
    assert found.outcome is Outcome.REFUTED
    assert found.detail.startswith("layer 0, head 0:")
    assert proved(weights, set()).finding.outcome is Outcome.STANDS  # nothing is read through it


@pytest.mark.parametrize("used", [{0}, set()])
def test_logits_that_overflow_are_not_proved_even_in_a_head_that_is_idle(used):
    weights = drawn(0, 1e3, torch.float32)
    weights["query_bias"][0, 0] = weights["key_bias"][0, 0] = 1e30
    assert attention(weights).isnan().any()
    found = proved(weights, used).finding
    assert found.outcome is Outcome.OPEN
    assert "overflow float32" in found.detail


def test_queries_too_small_for_the_dtype_are_not_taken_as_exact():
    tiny = 2.0**-100
    p = torch.tensor([[1.0], [2.0]]) * tiny
    weights = {
        "encoding": p, "query_weight": torch.full((1, 1, 1), tiny), "query_bias": torch.zeros(1, 1),
        "key_weight": torch.full((1, 1, 1), 2.0**127), "key_bias": torch.zeros(1, 1),
    }  # fmt: skip
    assert (attention(weights) == 0.5).all()  # every query underflows to 0
    assert proved(weights, {0}).finding.outcome is not Outcome.STANDS
