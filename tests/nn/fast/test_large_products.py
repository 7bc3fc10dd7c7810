"""Large products by oneDNN: those of float64, to float32's rounding, however the factors lie; and who takes them."""

import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from posattn.nn.fast import large_products
from posattn.nn.fast.factored_layer import factored_layer
from posattn.nn.fast.large_products import LARGE, LONG, is_large, plus_product, product
from posattn.nn.fast.products import linear, row_products
from posattn.nn.fast.standard_layer import FEW_NODES, attending_layer

from . import layers

ROWS, INNER, COLUMNS = 1009, 67, 71  # primes, together just large enough


def numbers(*shape: int, seed: int) -> Tensor:
    return layers.numbers(*shape, seed=seed).float()


def assert_is_rounding(found: Tensor, x: Tensor, y: Tensor, plus: Tensor | None = None) -> None:
    """Each number is within what a float32 sum of these terms can be off, whatever its order."""
    x, y = x.double(), y.double()
    total = torch.zeros((), dtype=torch.float64) if plus is None else plus.double()
    terms = x.shape[2] + 1
    allowed = terms * 2**-24 / (1 - terms * 2**-24) * (x.abs() @ y.abs() + total.abs())
    assert ((found.double() - (x @ y + total)).abs() <= allowed).all()


@pytest.fixture
def avx(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor whose products oneDNN takes, whatever this one is."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr(large_products, "processor", lambda: "vendor_id : AuthenticAMD")


def goes_to_onednn(x: Tensor, y: Tensor) -> bool:
    z = product(x.detach().requires_grad_(), y)
    assert z.grad_fn is not None
    return "Large" in z.grad_fn.name()


# ---- values


def sliced(x: Tensor) -> Tensor:
    """The same numbers as a part of a larger matrix, one number off where rows would begin."""
    wide = x.new_full((x.shape[0], x.shape[1] + 2, x.shape[2] + 3), float("nan"))
    wide[:, 1:-1, 1:-2] = x
    return wide[:, 1:-1, 1:-2]


LIES: dict[str, Any] = {
    "in order": lambda x: x,
    "by columns": lambda x: x.mT.contiguous().mT,
    "scattered": layers.scattered,
    "as part of a larger matrix": sliced,
    "as columns of a larger matrix": lambda x: sliced(x.mT).mT,
    "replicas innermost": lambda x: x.permute(1, 2, 0).contiguous().permute(2, 0, 1),
}


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("left", LIES)
@pytest.mark.parametrize("right", LIES)
def test_products_are_those_of_float64_however_factors_lie(replicas, left, right):
    x, y = numbers(replicas, ROWS, INNER, seed=1), numbers(replicas, INNER, COLUMNS, seed=2)
    assert_is_rounding(product(LIES[left](x), LIES[right](y)), x, y)


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("rows", [1, ROWS])
def test_what_is_added_may_be_a_row_or_a_matrix_and_is_left_as_it_was(lie, rows):
    x, y = numbers(2, ROWS, INNER, seed=1), numbers(2, INNER, COLUMNS, seed=2)
    plus = numbers(2, rows, COLUMNS, seed=3)
    given = LIES[lie](plus)
    assert_is_rounding(product(x, y, given), x, y, plus)
    assert torch.equal(given, plus)


@pytest.mark.usefixtures("avx")
def test_one_factor_that_all_replicas_see_and_one_row_for_all_rows():
    x, y, row = numbers(1, ROWS, INNER, seed=1), numbers(1, INNER, COLUMNS, seed=2), numbers(1, 1, 1, seed=3)
    seen, row = x.expand(3, -1, -1), row.expand(3, 1, COLUMNS)
    assert_is_rounding(product(seen, y.expand(3, -1, -1), row), seen, y.expand(3, -1, -1), row)


@pytest.mark.usefixtures("avx")
def test_a_large_sum_goes_on():
    x, y, total = numbers(2, ROWS, INNER, seed=1), numbers(2, INNER, COLUMNS, seed=2), numbers(2, ROWS, COLUMNS, seed=3)
    assert_is_rounding(plus_product(total.clone(), x, y), x, y, total)
    small = total[:, :3].clone()
    assert plus_product(small, x[:, :3], y) is small  # in place where MKL multiplies
    assert_is_rounding(small, x[:, :3], y, total[:, :3])


@pytest.mark.usefixtures("avx")
def test_infinities_and_nan_go_through():
    x, y = numbers(1, ROWS, INNER, seed=1), numbers(1, INNER, COLUMNS, seed=2)
    x[0, 5, 7], x[0, 9, 3] = float("inf"), float("nan")
    found, expected = product(x, y), torch.bmm(x, y)
    assert torch.equal(found.isnan(), expected.isnan())
    assert torch.equal(found.isposinf(), expected.isposinf())


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_product_may_be_changed_in_place(replicas):
    x, y = numbers(replicas, ROWS, INNER, seed=1).requires_grad_(), numbers(replicas, INNER, COLUMNS, seed=2)
    product(x, y).relu_().sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (x @ y > 0).float() @ y.mT)


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("lie", LIES)
def test_onednn_gets_right_factors_in_rows_or_in_columns(lie, monkeypatch):
    """Any other it multiplies number by number, which nobody would see but on the clock."""
    given: list[Tensor] = []

    class Seen:
        def _linear_pointwise(self, rows, weight, *rest):
            given.append(weight)
            return rows @ weight.mT

    monkeypatch.setattr(torch.ops, "mkldnn", Seen())
    product(numbers(2, ROWS, INNER, seed=1), LIES[lie](numbers(2, INNER, COLUMNS, seed=2)))
    assert len(given) == 2
    assert all(weight.is_contiguous() or weight.mT.is_contiguous() for weight in given)


@pytest.mark.usefixtures("avx")
def test_no_replicas_have_no_products():
    assert product(torch.ones(0, ROWS, INNER), torch.ones(0, INNER, COLUMNS)).shape == (0, ROWS, COLUMNS)


# ---- gradients


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("rows", [None, 1, ROWS])
def test_gradients_are_those_of_the_formula_and_so_are_second_ones(rows):
    given = [numbers(2, ROWS, INNER, seed=1), numbers(2, INNER, COLUMNS, seed=2)]
    given += [] if rows is None else [numbers(2, rows, COLUMNS, seed=3)]

    def derivatives(function: Any, leaves: list[Any]) -> list[Tensor]:
        first = torch.autograd.grad(function(*leaves).pow(2).sum(), leaves, create_graph=True)
        second = torch.autograd.grad(torch.stack([g.square().sum() for g in first]).sum(), leaves)
        return [*first, *second]

    def formula(x: Tensor, y: Tensor, plus: Tensor | float = 0.0) -> Tensor:
        return x @ y + plus

    expected = derivatives(formula, [x.double().requires_grad_() for x in given])
    found = derivatives(product, [x.requires_grad_() for x in given])
    for f, e in zip(found, expected, strict=True):
        assert (f.double() - e).abs().max() < 1e-5 * e.abs().max()


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("at", [0, 1, 2])
def test_only_what_asks_for_a_gradient_gets_one(at):
    given = [numbers(1, ROWS, INNER, seed=1), numbers(1, INNER, COLUMNS, seed=2), numbers(1, 1, COLUMNS, seed=3)]
    given[at].requires_grad_()
    product(given[0], given[1], given[2]).sum().backward()  # the gradient of the product is one number, expanded
    assert [x.grad is not None for x in given] == [place == at for place in range(3)]


@pytest.mark.usefixtures("avx")
def test_maps_and_sums_over_rows_of_many_samples_are_large_products():
    x, weight, bias = numbers(2, 50, 23, 67, seed=1), numbers(2, 67, 71, seed=2), numbers(2, 71, seed=3)
    found = linear(x.requires_grad_(), weight, bias)
    assert_is_rounding(found.flatten(1, 2), x.flatten(1, 2), weight, bias.unsqueeze(1))
    rows = x.detach().flatten(1, 2)
    assert_is_rounding(row_products(rows, found.detach().flatten(1, 2)), rows.mT, found.flatten(1, 2))


def errors_of(layer: Any, formula: Any, inputs: list[Tensor], weighing: Tensor) -> float:
    """The largest of a float32 layer, value and gradients, where oneDNN has most of the products."""
    taken: list[bool] = []

    def asked(x: Tensor, y: Tensor) -> bool:
        taken.append(is_large(x, y))
        return taken[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_products, "is_large", asked)
        found = layers.traced(layer, inputs, weighing)
    assert sum(taken) >= 4
    expected = layers.traced(formula, [x.double() for x in inputs], weighing.double())
    assert 0.3 < (expected.value > 0).double().mean() < 0.7
    return max(layers.errors(found, expected))


def far_from_zero(replicas: int, units: int) -> Tensor:
    """Biases that decide of every ReLU whether it passes, so that rounding cannot."""
    return torch.tensor([40.0, -40.0]).repeat(replicas, units // 2)


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("readers", [9, 7])
def test_a_positional_layer_of_many_samples_is_its_formula(readers):
    r, nodes, batch, into, values, hidden, heads = 2, 9, 160, 62, 66, 64, 2
    inputs = [
        numbers(r, into, nodes, batch, seed=1),
        numbers(r, heads, readers, nodes, seed=2).softmax(3),
        numbers(r, into, hidden + values, seed=3) / into**0.5,
        numbers(r, values, hidden, seed=4) / values**0.5,
        far_from_zero(r, hidden),
    ]
    weighing = numbers(r, hidden, readers, batch, seed=5)
    assert errors_of(factored_layer, layers.narrow, inputs, weighing) < 1e-5


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("nodes", [9, FEW_NODES + 4])
def test_a_standard_layer_of_many_samples_is_its_formula(nodes):
    r, batch, into, heads, out = 2, 150, 62, 2, 64
    inputs = [
        numbers(r, batch, nodes, into, seed=1),
        numbers(r, heads, into, into, seed=2) / into,
        numbers(r, heads, into, seed=3) / into**0.5,
        numbers(r, 1 + heads, into, out, seed=4) / into**0.5,
        far_from_zero(r, out),
    ]
    weighing = numbers(r, batch, nodes, out, seed=6)
    assert errors_of(attending_layer, layers.attending, inputs, weighing) < 1e-5


# ---- who takes them


@pytest.mark.usefixtures("avx")
def test_onednn_takes_what_is_large_and_nowhere_short():
    def taken(rows: int, inner: int, columns: int) -> bool:
        x, y = torch.ones(1, rows, inner), torch.ones(1, inner, columns)
        assert goes_to_onednn(x, y) == is_large(x, y)
        return is_large(x, y)

    long = LARGE // LONG**2
    assert taken(long, LONG, LONG)
    assert taken(LONG, long, LONG)
    assert taken(LONG, LONG, long)
    assert not taken(long - 1, LONG, LONG)  # one row too few
    assert not taken(2 * long, LONG - 1, LONG)
    assert not taken(2 * long, LONG, LONG - 1)
    assert not taken(LONG - 1, 2 * long, LONG)
    assert not taken(0, INNER, COLUMNS)


@pytest.mark.usefixtures("avx")
def test_on_intels_processors_mkl_multiplies(monkeypatch):
    x, y = numbers(1, ROWS, INNER, seed=1), numbers(1, INNER, COLUMNS, seed=2)
    assert goes_to_onednn(x, y)
    for said in ("processor : 0\nvendor_id : GenuineIntel\ncpu family : 6", "Intel64 Family 6 Model 143, GenuineIntel"):
        monkeypatch.setattr(large_products, "processor", lambda said=said: said)
        assert not goes_to_onednn(x, y)


def test_a_system_says_what_its_processor_is():
    found = large_products.processor.__wrapped__()
    assert found == large_products.processor()
    if Path("/proc/cpuinfo").exists():
        assert found.splitlines()[0] == Path("/proc/cpuinfo").read_text().splitlines()[0]


def test_a_system_without_a_list_of_processors_is_asked_in_another_way(monkeypatch):
    def missing(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert large_products.processor.__wrapped__() == platform.processor()


@pytest.mark.usefixtures("avx")
@pytest.mark.parametrize("capability", ["DEFAULT", "NO AVX", "SVE256", "Z VECTOR"])
def test_without_avx_all_products_are_pytorchs_own(capability, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert not goes_to_onednn(numbers(1, ROWS, INNER, seed=1), numbers(1, INNER, COLUMNS, seed=2))


@pytest.mark.usefixtures("avx")
def test_what_onednn_does_not_know_or_shall_not_take_is_pytorchs_own(monkeypatch):
    x, y = numbers(2, ROWS, INNER, seed=1), numbers(2, INNER, COLUMNS, seed=2)
    row = numbers(2, 1, COLUMNS, seed=3)
    assert goes_to_onednn(x, y)
    for other in (torch.float64, torch.bfloat16):
        assert not is_large(x.to(other), y.to(other))
    assert not is_large(x.to("meta"), y.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert product(x, y).dtype == torch.bfloat16
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        assert not goes_to_onednn(x, y)
        assert_is_rounding(product(x, y, row), x, y, row)
    monkeypatch.setattr(large_products, "HAS_ONEDNN", False)
    assert not goes_to_onednn(x, y)
