"""Rows in pieces: as many as keep a GPU busy, none on a CPU, and whatever their number, the same sums."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from posattn.nn.fast import products
from posattn.nn.fast.products import look_up, with_identity
from posattn.nn.fast.standard_layer import attending_layer

from . import layers
from .layers import numbers

EXACT = 1e-12
#: 2·3·5 rows can be cut into all of these.
IN_PIECES = pytest.mark.parametrize("pieces", [1, 2, 3, 5])
WITH_AND_WITHOUT_BIAS = pytest.mark.parametrize("bias", [True, False])


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Cut all rows into so many pieces; gives the list to which every use is added."""

    def into(pieces: int) -> list[int]:
        used: list[int] = []

        def fixed(rows: Tensor) -> int:
            used.append(rows.shape[1])
            return pieces

        monkeypatch.setattr(products, "pieces_of", fixed)
        return used

    return into


def on_a_gpu(replicas: int, rows: int) -> Any:
    return SimpleNamespace(is_cuda=True, shape=(replicas, rows, 7))


# ---- how many


def test_on_a_cpu_nothing_is_cut():
    for replicas, rows in ((1, 1), (1, 8000), (15, 9000), (300, 65536)):
        assert products.pieces_of(torch.empty(replicas, rows, 2)) == 1


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("replicas", [1, 2, 15, 100, 263, 264, 1000])
@pytest.mark.parametrize("rows", [0, 1, 255, 511, 512, 769, 9000, 9001, 65536])
def test_on_a_gpu_there_are_the_most_equal_pieces_that_are_large_enough_and_not_more_than_keep_it_busy(replicas, rows):
    enough = -(-products.BUSY // replicas)
    allowed = [n for n in range(2, rows + 1) if rows % n == 0 and rows // n >= products.ROWS and n <= enough]
    assert products.pieces_of(on_a_gpu(replicas, rows)) == max(allowed, default=1)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("replicas", "samples", "nodes"), [(3, 64, 99), (10, 64, 99), (1, 7, 500), (2, 30, 5), (1, 1, 9)]
)
def test_a_sample_is_never_parted(replicas, samples, nodes):
    enough = -(-products.BUSY // replicas)
    allowed = [n for n in range(2, samples + 1) if samples % n == 0 and samples // n * nodes >= products.ROWS]
    found = products.pieces_of(on_a_gpu(replicas, samples * nodes), whole=nodes)
    assert found == max((n for n in allowed if n <= enough), default=1)


@pytest.mark.usefixtures("as_users_run_it")
def test_a_full_fleet_is_not_cut_and_a_single_model_is():
    assert products.pieces_of(on_a_gpu(264, 8000)) == 1
    assert products.pieces_of(on_a_gpu(1, 8000)) == 25  # of 320 rows; 31 pieces of 256 and more would not be equal


# ---- the same sums


@IN_PIECES
def test_row_products_are_the_sums_over_all_rows(cut, pieces):
    used = cut(pieces)
    x, y = numbers(3, 30, 7, seed=1), numbers(3, 30, 11, seed=2)
    shared = x[:1].expand(3, -1, -1)  # one input that every replica sees
    for left, right in ((x, y), (layers.scattered(x), layers.scattered(y)), (shared, y)):
        expected = torch.einsum("rik,rif->rkf", left, right)
        assert (products.row_products(left, right) - expected).abs().max() < EXACT * expected.abs().max()
    assert used == [30] * 3


def plain_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    y = torch.einsum("r...k,rkf->r...f", x, weight)
    return y if bias is None else y + bias.view(bias.shape[0], *(1,) * (x.dim() - 2), -1)


def linear_inputs(*nodes: int, bias: bool) -> list[Any]:
    x, weight = numbers(2, *nodes, 7, seed=1), numbers(2, 7, 11, seed=2)
    return [x, weight, numbers(2, 11, seed=3) if bias else None]


@IN_PIECES
@WITH_AND_WITHOUT_BIAS
@pytest.mark.parametrize("nodes", [(30,), (6, 5), (2, 3, 5)])
@pytest.mark.parametrize("lie", ["in order", "scattered"])
def test_linear_has_the_value_and_gradients_of_the_formula(cut, pieces, bias, nodes, lie):
    used = cut(pieces)
    inputs, weighing = linear_inputs(*nodes, bias=bias), numbers(2, *nodes, 11, seed=4)
    expected = layers.traced(plain_linear, inputs, weighing)
    if lie == "scattered":
        inputs, weighing = [layers.scattered(x) for x in inputs], layers.scattered(weighing)
    assert max(layers.errors(layers.traced(products.linear, inputs, weighing), expected)) < EXACT
    assert used == [30]


def second_derivatives(layer: Callable[..., Tensor], inputs: list[Any]) -> list[Tensor]:
    """Of a function that is not linear in anything: the gradients of ‖gradients‖² + ⟨gradients, 1⟩."""
    leaves = layers.differentiable(inputs)
    asked = [x for x in leaves if x is not None]
    first = torch.autograd.grad(layer(*leaves).pow(3).sum(), asked, create_graph=True)
    return list(torch.autograd.grad(torch.stack([(g.square() + g).sum() for g in first]).sum(), asked))


@IN_PIECES
@WITH_AND_WITHOUT_BIAS
def test_linear_can_be_differentiated_twice(cut, pieces, bias):
    inputs = linear_inputs(6, 5, bias=bias)
    expected = second_derivatives(plain_linear, inputs)
    cut(pieces)
    for found, wanted in zip(second_derivatives(products.linear, inputs), expected, strict=True):
        assert (found - wanted).abs().max() < EXACT * wanted.abs().max()


@IN_PIECES
@WITH_AND_WITHOUT_BIAS
def test_the_attending_layer_has_the_value_and_gradients_of_the_formula(cut, pieces, bias):
    used = cut(pieces)
    r, s, n, k, h, f = 2, 6, 5, 7, 3, 11
    inputs = [
        numbers(r, s, n, k, seed=1),
        numbers(r, h, k, k, seed=2, scale=1 / k),
        numbers(r, h, k, seed=3, scale=k**-0.5),
        numbers(r, 1 + h, k, f, seed=4, scale=k**-0.5),
        numbers(r, f, seed=5) if bias else None,
    ]
    weighing = numbers(r, s, n, f, seed=6)
    expected = layers.traced(layers.attending, inputs, weighing)
    assert max(layers.errors(layers.traced(attending_layer, inputs, weighing), expected)) < EXACT
    assert used == [30] * 3  # gradients of N, of M_h and of M_0


# ---- attention and the node itself


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_identity_puts_one_identity_before_the_heads_of_every_layer(dtype: torch.dtype) -> None:
    attention = numbers(2, 3, 5, 7, 7, seed=1).to(dtype).requires_grad_()
    found = with_identity(attention)
    assert found.shape == (2, 3, 6, 7, 7)
    assert found.dtype == dtype
    for replica in range(2):
        for layer in range(3):
            assert torch.equal(found[replica, layer, 0], torch.eye(7, dtype=dtype))
            assert torch.equal(found[replica, layer, 1:], attention[replica, layer])
    weighing = numbers(*found.shape, seed=2).to(dtype)
    (gradient,) = torch.autograd.grad(found, attention, weighing)
    assert torch.equal(gradient, weighing[:, :, 1:])


# ---- tables of embeddings


def indexed(table: Tensor, codes: Tensor) -> Tensor:
    return torch.stack([table[replica][codes[replica]] for replica in range(table.shape[0])])


CODES = {
    "drawn, so that many repeat": torch.randint(0, 7, (3, 6, 5), generator=torch.Generator().manual_seed(0)),
    "one code alone": torch.full((3, 6, 5), 4),
    "first and last": torch.tensor([0, 6]).repeat(45).view(3, 6, 5),
    "lying in another order": torch.arange(90).remainder(7).view(5, 6, 3).permute(2, 1, 0),
}


@IN_PIECES
@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_looking_up_has_the_value_and_gradient_of_indexing(cut, pieces, codes):
    cut(pieces)
    table, weighing = numbers(3, 7, 11, seed=1), numbers(3, 6, 5, 11, seed=2)
    expected = layers.traced(lambda table: indexed(table, codes), [table], weighing)
    found = layers.traced(lambda table: look_up(table, codes), [table], weighing)
    assert torch.equal(found.value, expected.value)
    assert max(layers.errors(found, expected)) < EXACT
    (gradient,) = found.gradients
    assert gradient is not None
    for replica in range(3):
        absent = sorted(set(range(7)) - set(codes[replica].flatten().tolist()))
        assert gradient[replica, absent].abs().sum() == 0


def test_looking_up_can_be_differentiated_twice():
    table, codes = numbers(2, 3, 5, seed=1).requires_grad_(), torch.tensor([[[0, 2, 2]], [[1, 1, 1]]])
    assert torch.autograd.gradgradcheck(lambda table: look_up(table, codes).sin(), [table])
