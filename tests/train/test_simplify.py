"""A traced step made shorter computes what it computed."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from posattn.train.fleet.simplify import simplified

aten = torch.ops.aten


def counts(graph: GraphModule) -> Counter[object]:
    return Counter(node.target for node in graph.graph.nodes)


def both(function: Callable[..., object], *given: Tensor) -> tuple[Counter[object], Counter[object]]:
    """How often each operation stands in a trace, before and after; values must agree."""
    expected = make_fx(function)(*given)
    values, before = expected(*given), counts(expected)
    short = simplified(make_fx(function)(*given))
    torch.testing.assert_close(short(*given), values, rtol=1e-12, atol=1e-12)
    return before, counts(short)


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def test_what_changes_nothing_is_dropped() -> None:
    (x,) = drawn((3, 5))
    before, after = both(lambda x: (x * 1).view(3, 5).expand(3, 5).detach() / 1 + x * 2, x)
    assert before[aten.detach.default] == 1
    assert after[aten.detach.default] == after[aten.view.default] == after[aten.expand.default] == 0
    assert (before[aten.mul.Tensor], after[aten.mul.Tensor]) == (2, 1)


def test_a_product_with_one_that_changes_the_kind_of_number_stays() -> None:
    _, after = both(lambda x: aten.mul.Scalar(x, 1.0), torch.arange(3))
    assert after[aten.mul.Scalar] == 1


def test_what_appears_twice_is_computed_once_unless_it_is_random_or_written_into() -> None:
    (x,) = drawn((4, 4))
    _, after = both(lambda x: x.sin() + x.sin() * 2, x)
    assert after[aten.sin.default] == 1
    noisy = simplified(make_fx(lambda x: (torch.rand_like(x), torch.rand_like(x)))(x))
    assert counts(noisy)[aten.rand_like.default] == 2
    written = simplified(make_fx(lambda x: (torch.empty_like(x).fill_(1), torch.empty_like(x).fill_(2)))(x))
    assert [float(one[0, 0]) for one in written(x)] == [1.0, 2.0]


@pytest.mark.parametrize("turned", [False, True])
def test_a_sum_of_products_becomes_one(turned: bool) -> None:
    """Σ Aᵢᵀ·Bᵢ, with as many rows in each as it likes."""
    given = drawn(*((3, rows, width) for rows in (2, 5, 7, 4) for width in (6, 8)))

    def total(*given: Tensor) -> Tensor:
        products = [torch.bmm(a.mT, b) for a, b in zip(given[::2], given[1::2], strict=True)]
        products = [product.mT for product in products] if turned else products
        return (products[0] + products[1]) + (products[2] + products[3])

    before, after = both(total, *given)
    assert (before[aten.bmm.default], after[aten.bmm.default]) == (4, 1)
    assert after[aten.add.Tensor] == 0


def test_a_sum_of_column_sums_becomes_one() -> None:
    def total(*given: Tensor) -> Tensor:
        first, second, third = (one.sum(1, keepdim=True).view(3, 6) for one in given)
        return first + second + third

    before, after = both(total, *drawn((3, 2, 6), (3, 5, 6), (3, 7, 6)))
    assert (before[aten.sum.dim_IntList], after[aten.sum.dim_IntList]) == (3, 1)


def test_sums_of_other_things_and_partial_sums_that_are_used_stay() -> None:
    given = drawn(*[(3, 4, 5), (3, 4, 6)] * 3)

    def partial(*given: Tensor) -> tuple[Tensor, Tensor]:
        first, second, third = (torch.bmm(a.mT, b) for a, b in zip(given[::2], given[1::2], strict=True))
        return first + second, (first + second).sin() + third

    _, after = both(partial, *given)
    assert after[aten.bmm.default] == 3
    mixed = drawn((3, 5, 6), (3, 5, 6), (3, 4, 5), (3, 4, 6))
    _, after = both(lambda x, y, a, b: x + y + torch.bmm(a.mT, b), *mixed)
    assert after[aten.add.Tensor] == 2
    plain = drawn(*[(3, 4, 5), (3, 5, 6)] * 3)  # the sum runs over columns of the left factor: nothing to collect
    _, after = both(lambda a, b, c, d, e, f: torch.bmm(a, b) + torch.bmm(c, d) + torch.bmm(e, f), *plain)
    assert after[aten.bmm.default] == 3
