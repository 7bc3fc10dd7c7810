"""Every encoding against a definition of its own."""

import itertools
import math

import numpy as np
import pytest
import torch

from posattn import encodings
from posattn.errors import PosattnError

NAMES = ["one-hot", "binary", "parabolic", "sinusoidal", "near-orthogonal", "stochastic"]
RANDOM = ["near-orthogonal", "stochastic"]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_registry_names_every_encoding() -> None:
    assert list(encodings.REGISTRY) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_name_and_function_are_the_same_encoding(name: str) -> None:
    function = getattr(encodings, name.replace("-", "_"))
    assert encodings.REGISTRY[name] is function
    made = encodings.make(name, 7, generator=seeded())
    assert torch.equal(made, function(7, generator=seeded()))
    assert made.dtype == torch.float32
    assert made.shape[0] == 7


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nodes", [1, 2, 7, 13, 32, 33])
def test_width_said_beforehand_is_the_width_made(name: str, nodes: int) -> None:
    assert encodings.width(name, nodes) == encodings.make(name, nodes, generator=seeded()).shape[1]
    if name in ("sinusoidal", *RANDOM):
        assert encodings.width(name, nodes, 6) == encodings.make(name, nodes, dim=6, generator=seeded()).shape[1] == 6


@pytest.mark.parametrize("nodes", range(1, 34))
def test_one_hot_is_the_identity(nodes: int) -> None:
    np.testing.assert_array_equal(encodings.make("one-hot", nodes).numpy(), np.eye(nodes))
    assert torch.equal(encodings.make("one-hot", nodes, dim=nodes), encodings.make("one-hot", nodes))


@pytest.mark.parametrize("nodes", range(1, 34))
def test_binary_rows_are_the_binary_digits_from_the_right(nodes: int) -> None:
    width = len(f"{nodes - 1:b}")
    digits = [f"{node:0{width}b}"[::-1] for node in range(nodes)]
    expected = [[1.0 if digit == "1" else -1.0 for digit in row] for row in digits]
    assert encodings.make("binary", nodes).tolist() == expected
    assert torch.equal(encodings.make("binary", nodes, dim=width), encodings.make("binary", nodes))


@pytest.mark.parametrize("nodes", range(1, 34))
def test_binary_rows_differ_and_no_narrower_width_would_do(nodes: int) -> None:
    encoding = encodings.make("binary", nodes)
    width = encoding.shape[1]
    assert len({tuple(row) for row in encoding.tolist()}) == nodes
    assert width == 1 or 2 ** (width - 1) < nodes <= 2**width


@pytest.mark.parametrize("nodes", [1, 2, 7, 101])
def test_parabolic_query_scores_minus_the_squared_distance_and_peaks_at_its_node(nodes: int) -> None:
    encoding = encodings.make("parabolic", nodes, dim=3).double()
    i = torch.arange(nodes)
    query = torch.stack([-(i**2), 2 * i, -torch.ones(nodes)], dim=1).double()
    scores = query @ encoding.T
    assert torch.equal(scores, -((i[:, None] - i[None, :]) ** 2).double())  # whole numbers: exact
    assert torch.equal(scores.argmax(1), i)
    if nodes > 1:
        best, second = scores.topk(2, dim=1).values.T
        assert bool((best - second == 1).all())


@pytest.mark.parametrize(("nodes", "dim"), [(7, 10), (101, 6), (1, 2), (13, None), (11, None), (2, None)])
def test_sinusoidal_is_sine_and_cosine_of_the_scaled_place(nodes: int, dim: int | None) -> None:
    encoding = encodings.make("sinusoidal", nodes, dim=dim)
    width = dim or 2 * math.ceil(nodes / 2)
    assert encoding.shape == (nodes, width)
    expected = np.empty((nodes, width))
    for i, k in itertools.product(range(nodes), range(width // 2)):
        angle = i / 10_000 ** (2 * k / width)
        expected[i, 2 * k : 2 * k + 2] = math.sin(angle), math.cos(angle)
    # Rounding to float32 costs 2⁻²⁵ below 1; a frequency in float64 is off by about 10 roundings, times i.
    np.testing.assert_allclose(encoding.numpy(), expected, rtol=0, atol=2.0**-25 + 20 * nodes * 2.0**-53)


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize(("nodes", "dim"), [(101, 499), (5, 7), (1, 1)])
def test_random_rows_are_signs_of_length_one(name: str, nodes: int, dim: int) -> None:
    encoding = encodings.make(name, nodes, dim=dim, generator=seeded())
    assert encoding.shape == (nodes, dim)
    # A root, a reciprocal and a product: three roundings in float32, and so is the length off at most.
    np.testing.assert_allclose(encoding.abs().numpy(), 1 / math.sqrt(dim), rtol=3 * 2.0**-24)
    np.testing.assert_allclose(encoding.double().norm(dim=1).numpy(), 1, rtol=3 * 2.0**-24)


@pytest.mark.parametrize("name", RANDOM)
def test_random_width_is_the_number_of_nodes_unless_said(name: str) -> None:
    assert encodings.make(name, 13, generator=seeded()).shape == (13, 13)


@pytest.mark.parametrize("name", RANDOM)
def test_random_rows_are_nearly_orthogonal(name: str) -> None:
    nodes, dim, delta = 101, 499, 1e-3
    encoding = encodings.make(name, nodes, dim=dim, generator=seeded()).double()
    row, column = torch.triu_indices(nodes, nodes, 1)
    inner = (encoding @ encoding.T)[row, column]
    assert inner.abs().max() <= math.sqrt(2 * math.log(nodes**2 / delta) / dim)
    # Pairs are uncorrelated; dim·⟨a, b⟩² has mean 1 and variance below 2, the mean 0 and variance 1 before squaring.
    assert abs((dim * inner**2).mean().item() - 1) < 4 * math.sqrt(2 / len(inner))
    assert abs(math.sqrt(dim) * inner.mean().item()) < 4 / math.sqrt(len(inner))


@pytest.mark.parametrize("name", RANDOM)
def test_both_signs_are_equally_likely(name: str) -> None:
    encoding = encodings.make(name, 101, dim=499, generator=seeded())
    assert abs(encoding.sign().mean().item()) < 4 / math.sqrt(101 * 499)


@pytest.mark.parametrize("name", RANDOM)
def test_redraw_differs_and_the_same_state_does_not(name: str) -> None:
    generator = seeded(5)
    first, second = (encodings.make(name, 11, dim=13, generator=generator) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first, encodings.make(name, 11, dim=13, generator=seeded(5)))
    assert not torch.equal(first, encodings.make(name, 11, dim=13, generator=seeded(6)))


@pytest.mark.parametrize("name", RANDOM)
def test_random_encoding_leaves_the_global_state_alone(name: str) -> None:
    before = torch.get_rng_state()
    encodings.make(name, 11, generator=seeded())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("name", "nodes", "asked", "said"),
    [
        ("one_hot", 3, {}, ["unknown encoding 'one_hot'", "did you mean 'one-hot'?", "Known: one-hot, binary"]),
        ("sinusoid", 3, {}, ["unknown encoding 'sinusoid'", "did you mean 'sinusoidal'?"]),
        ("one-hot", 0, {}, ["nodes=0", "at least one node"]),
        ("binary", 3, {"dim": 0}, ["encoding_dim=0", "at least 1"]),
        ("one-hot", 5, {"dim": 4}, ["encoding_dim=4", "one-hot encoding of 5 nodes has 5", "Leave encoding_dim out"]),
        ("binary", 5, {"dim": 5}, ["encoding_dim=5", "binary encoding of 5 nodes has 3", "Leave encoding_dim out"]),
        ("parabolic", 5, {"dim": 2}, ["encoding_dim=2", "has 3 dimensions", "Leave encoding_dim out"]),
        ("sinusoidal", 5, {"dim": 7}, ["encoding_dim=7", "needs an even width", "Use 8"]),
        ("stochastic", 5, {}, ["stochastic encoding is random", "pass generator=torch.Generator()"]),
        ("near-orthogonal", 5, {"dim": 3}, ["near-orthogonal encoding is random", "pass generator="]),
    ],
)
def test_encoding_that_cannot_be_made_is_refused(name: str, nodes: int, asked: dict, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        encodings.make(name, nodes, **asked)
    for words in said:
        assert words in str(refused.value)
