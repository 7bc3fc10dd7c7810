"""Softmax attention is the communication pattern, exactly: through the model's own attention, in both precisions."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn.compile.lowering import positions as encodings
from posattn.compile.lowering.positions import SINK, Pattern, Positions, affine, choose
from posattn.nn import ExactPositional, model_of

BUILDERS = {
    "one-hot": encodings._one_hot,
    "binary": encodings._binary,
    "parabolic": encodings._parabolic,
    "targets": encodings._targets,
}
DTYPES = [torch.float32, torch.float64]
generator = np.random.default_rng(0)


def shifted(nodes: int, shift: int, *, sink: bool) -> Pattern:
    """Who would read beyond the border reads the sink, or the border's node where there is none."""
    if sink:
        return tuple(i - shift if i >= shift else SINK for i in range(nodes))
    return tuple(min(max(i - shift, 0), nodes - 1) for i in range(nodes))


def xor(nodes: int, mask: int) -> Pattern:
    return tuple(i ^ mask for i in range(nodes))


def anything(nodes: int, *, sink: bool) -> Pattern:
    return tuple(int(t) for t in generator.integers(SINK if sink else 0, nodes, nodes))


def attention(held: Positions, patterns: Sequence[Pattern], nodes: int, dtype: torch.dtype) -> torch.Tensor:
    """One layer for every pattern, through the attention of the real model."""
    architecture = ExactPositional(
        length=nodes, scratchpad=0, embed_dim=1, heads=1, layers=len(patterns), hidden_dim=1, bias=False,
        encoding="given", encoding_dim=held.width,
    )  # fmt: skip
    bias = np.zeros((len(patterns), held.width))
    weights = {
        "encoding": held.matrix,
        "query_weight": np.stack([held.queries[pattern] for pattern in patterns]),
        "key_weight": np.stack([held.key] * len(patterns)),
        "query_bias": bias,
        "key_bias": bias,
    }
    given = {name: torch.from_numpy(value).to(dtype) for name, value in weights.items()}
    rest = {name: tensor.to(dtype) for name, tensor in architecture.init(torch.Generator()).items()}
    model: Any = model_of(architecture, rest | given)
    return model.attention()[:, 0]


def selects(held: Positions, patterns: Sequence[Pattern], nodes: int, dtype: torch.dtype, *, sink: bool) -> bool:
    """Whether every weight is exactly 1 at the node that is read and 0 at all others; the sink reads itself."""
    found = attention(held, patterns, nodes + sink, dtype)
    targets = torch.tensor([[*pattern, SINK] if sink else list(pattern) for pattern in patterns]) % (nodes + sink)
    return torch.equal(found, torch.nn.functional.one_hot(targets, nodes + sink).to(dtype))


def families(nodes: int, *, sink: bool) -> dict[str, list[Pattern]]:
    """Patterns that each encoding is for."""
    itself = tuple(range(nodes))
    steps = {0, 1, nodes // 2, nodes - 1} if nodes > 1 else {0}
    lines = [shifted(nodes, shift, sink=sink) for shift in steps] + [itself]
    if not sink:
        lines += [itself[::-1], *((source,) * nodes for source in steps), shifted(nodes, -1, sink=False)]
    every = [*lines, anything(nodes, sink=sink), anything(nodes, sink=sink)]
    power = nodes > 1 and nodes & (nodes - 1) == 0
    return {
        "one-hot": every,
        "binary": [xor(nodes, mask) for mask in {0, 1, nodes - 1, nodes // 2}] if power and not sink else [],
        "parabolic": lines,
        "targets": every,
    }


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BUILDERS)
def test_attention_is_the_pattern_exactly_for_1_to_70_nodes(name, dtype, sink):
    seen = 0
    for nodes in range(1, 71):
        patterns = list(dict.fromkeys(families(nodes, sink=sink)[name]))
        held = BUILDERS[name](patterns, nodes, sink) if patterns else None
        if held is None:  # targets is for where one-hot is wider, binary for powers of two
            assert (name == "targets" and nodes < 16) or name == "binary"
            continue
        assert held.name == name
        assert selects(held, patterns, nodes, dtype, sink=sink), nodes
        seen += 1
    assert seen >= {"one-hot": 70, "binary": 0 if sink else 6, "parabolic": 70, "targets": 50}[name]


@pytest.mark.parametrize("nodes", [1000, 1024])
@pytest.mark.parametrize("sink", [False, True])
def test_attention_is_the_pattern_exactly_for_many_nodes(nodes, sink):
    for name, build in BUILDERS.items():
        patterns = families(nodes, sink=sink)[name]
        if patterns:
            some = patterns[-2:]
            held = build(some, nodes, sink)
            assert held is not None
            assert selects(held, some, nodes, torch.float32, sink=sink), name


@pytest.mark.parametrize("sink", [False, True])
def test_parabolas_are_exact_up_to_2048_nodes_and_refused_beyond(sink):
    far = [shifted(2048, 2047, sink=sink), shifted(2048, 1, sink=sink)]
    far += [] if sink else [tuple(range(2048))[::-1]]
    for pattern in far:
        held = encodings._parabolic([pattern], 2048, sink)
        if held is not None:
            assert selects(held, [pattern], 2048, torch.float32, sink=sink)
    assert encodings._parabolic([tuple(range(2048))], 2048, sink) is not None
    assert encodings._parabolic([tuple(range(2049))], 2049, sink) is None
    assert encodings._targets([anything(2049, sink=sink)], 2049, sink) is None


@pytest.mark.parametrize("nodes", range(1, 30))
def test_steep_lines_are_exact_or_refused(nodes):
    """Slopes up to the number of nodes: t² grows with its fourth power."""
    for sink in (False, True):
        steep = [tuple(min(max(a * i + b, SINK if sink else 0), nodes - 1) for i in range(nodes))
                 for a, b in [(2, 0), (3, -2), (nodes, -1), (nodes + 1, -nodes * (nodes // 2))]]  # fmt: skip
        for pattern in steep:
            held = encodings._parabolic([pattern], nodes, sink)
            if held is not None:
                assert selects(held, [pattern], nodes, torch.float32, sink=sink)


def lines_by_brute_force(nodes: int, *, sink: bool) -> dict[Pattern, int]:
    """Every pattern of clipped lines, from all slopes and offsets that can make a difference, and its least slope."""
    low, reach = (SINK if sink else 0), 2 * nodes + 2
    index = np.arange(low, nodes)
    offsets = np.arange(-reach * nodes - reach, reach * nodes + reach + 1)
    found: dict[Pattern, int] = {}
    for slope in sorted(range(-reach, reach + 1), key=abs, reverse=True):
        rows = np.unique(np.clip(slope * index + offsets[:, None], low, nodes - 1), axis=0)
        rows = rows[rows[:, 0] == SINK][:, 1:] if sink else rows
        found |= {tuple(row): abs(slope) for row in rows.tolist()}
    return found


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("nodes", range(1, 9))
def test_every_line_is_found(nodes, sink):
    for pattern, least in lines_by_brute_force(nodes, sink=sink).items():
        line = affine(pattern, nodes, sink=sink)
        assert line is not None, pattern
        assert abs(line[0]) == least  # the steeper, the fewer nodes are exact
        targets = [min(max(line[0] * i + line[1], SINK if sink else 0), nodes - 1) for i in range(nodes)]
        assert tuple(targets) == pattern


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("nodes", range(1, 6))
def test_nothing_else_is_taken_for_a_line(nodes, sink):
    lines = lines_by_brute_force(nodes, sink=sink)
    for pattern in itertools.product(range(SINK if sink else 0, nodes), repeat=nodes):
        assert (affine(pattern, nodes, sink=sink) is not None) == (pattern in lines), pattern


@pytest.mark.parametrize(
    ("patterns", "nodes", "sink", "name", "width"),
    [
        ([(0,)], 1, False, "one-hot", 1),
        ([(1, 0)], 2, False, "binary", 1),
        ([xor(4, 1), xor(4, 2)], 4, False, "binary", 2),
        ([xor(8, 1), xor(8, 6)], 8, False, "binary", 3),
        ([xor(1024, 1 << bit) for bit in range(10)], 1024, False, "binary", 10),
        ([shifted(16, 4, sink=False)], 16, False, "parabolic", 3),
        ([xor(64, 63)], 64, False, "parabolic", 3),  # a reversal: narrower than six bits
        ([shifted(1000, 1, sink=True), shifted(1000, 512, sink=True)], 1000, True, "parabolic", 3),
        ([(7,) * 50], 50, False, "parabolic", 3),
        ([anything(64, sink=True), tuple(range(64))], 64, True, "targets", 5),
        ([anything(64, sink=False), shifted(64, 1, sink=False), anything(64, sink=False)], 64, False, "targets", 7),
        ([anything(7, sink=False) for _ in range(9)], 7, False, "one-hot", 7),
        ([anything(3000, sink=False)], 3000, False, "digits", 7),
        ([shifted(2100, 1 << k, sink=True) for k in range(12)], 2100, True, "digits", 40),
        ([tuple(range(5000))], 5000, False, "digits", 4),
        ([xor(4096, 1 << bit) for bit in range(12)], 4096, False, "binary", 12),
    ],
)
def test_the_smallest_encoding_is_chosen(patterns, nodes, sink, name, width):
    held = choose(patterns, nodes, sink=sink)
    assert (held.name, held.width, held.matrix.shape) == (name, width, (nodes + sink, width))


@settings(max_examples=25, deadline=None)
@given(st.integers(2049, 40_000), st.booleans(), st.integers(0, 2**32))
def test_digits_select_any_node_of_many_by_exact_integers(nodes, sink, seed):
    """Σ|term| ≤ 2²⁴ makes every partial sum exact in float32, in any order; the score is 0 at one node alone."""
    rng = np.random.default_rng(seed)
    count = nodes + sink
    pattern = tuple(int(t) for t in rng.integers(SINK if sink else 0, nodes, nodes))
    held = encodings._digits([pattern, tuple(range(nodes))], nodes, sink)
    assert held is not None
    assert held.width == 7
    some = np.unique([0, nodes - 1, count - 1, *rng.integers(0, count, 20)])
    for read, query in held.queries.items():
        scale = query.max() / 2
        queries = np.rint(held.matrix[some] @ (query / scale)).astype(np.int64)
        keys = np.rint(held.matrix @ held.key).astype(np.int64)
        terms = queries[:, None, :] * keys
        assert np.abs(terms).sum(axis=2).max() <= 2**24
        scores = terms.sum(axis=2)
        wanted = np.array([*read, count - 1] if sink else read)[some] % count
        assert np.array_equal(scores.argmax(axis=1), wanted)
        ordered = np.sort(scores, axis=1)
        assert (ordered[:, -1] == 0).all()
        assert (ordered[:, -2] <= -1).all()
        assert math.log2(scale).is_integer()
        assert scale / math.sqrt(held.width) >= 1024


def test_attention_by_digits_is_the_pattern_exactly():
    for nodes, sink in ((2049, False), (2100, True)):
        patterns = [anything(nodes, sink=sink), shifted(nodes, 1, sink=sink)]
        held = encodings._digits(patterns, nodes, sink)
        assert held is not None
        assert selects(held, patterns, nodes, torch.float32, sink=sink)


def test_digits_are_for_many_nodes_but_not_for_more_than_float32_counts():
    assert encodings._digits([tuple(range(2048))], 2048, False) is None  # targets are narrower
    assert encodings._digits([tuple(range(3))], 3, True) is None
    far = 2**22
    assert encodings._digits([tuple(range(far))], far, False) is None


def test_no_other_encoding_is_smaller():
    for nodes in (1, 2, 3, 4, 5, 8, 11, 16, 32):
        for sink in (False, True):
            for chosen in families(nodes, sink=sink).values():
                for count in (1, 2, len(chosen)):
                    patterns = list(dict.fromkeys(chosen[:count]))
                    if patterns:
                        others = [build(patterns, nodes, sink) for build in BUILDERS.values()]
                        least = min(held.width for held in others if held is not None)
                        held = choose(patterns, nodes, sink=sink)
                        assert held.width == least
                        assert selects(held, patterns, nodes, torch.float32, sink=sink)
