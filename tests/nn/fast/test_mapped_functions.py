"""Convolution and attention in the forms that fleets map, against PyTorch's own.

Sums of at most 200 terms of size 1 or so are added up in another order: 200 · 2⁻⁵³ is far below the 1e-12 allowed.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn.nn.fast.mapped_functions import attention, conv2d, mapped_functions


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 3)] * 3, *[st.integers(3, 7)] * 2),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.one_of(st.integers(1, 3), st.tuples(st.integers(1, 3), st.integers(1, 3))),
    padding=st.one_of(st.integers(0, 2), st.tuples(st.integers(0, 2), st.integers(0, 2))),
    dilation=st.sampled_from([1, 1, 2]),
    bias=st.booleans(),
)
def test_a_convolution_of_windows_is_the_convolution_with_its_gradients(
    sizes: tuple[int, ...],
    kernel: tuple[int, int],
    stride: int | tuple[int, int],
    padding: int | tuple[int, int],
    dilation: int,
    bias: bool,
) -> None:
    batch, into, out, height, width = sizes
    pads = (padding, padding) if isinstance(padding, int) else padding
    reach = [size + 2 * pad for size, pad in zip((height, width), pads, strict=True)]
    if any(dilation * (k - 1) + 1 > size for k, size in zip(kernel, reach, strict=True)):
        return
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, into, height, width, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(out, into, *kernel, generator=generator, dtype=torch.float64, requires_grad=True)
    held = [x, weight]
    if bias:
        held.append(torch.randn(out, generator=generator, dtype=torch.float64, requires_grad=True))
    found = conv2d(*held, stride=stride, padding=padding, dilation=dilation)
    expected = F.conv2d(*held, stride=stride, padding=padding, dilation=dilation)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    on = torch.randn(found.shape, generator=generator, dtype=torch.float64)
    for mine, theirs in zip(torch.autograd.grad(found, held, on), torch.autograd.grad(expected, held, on), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"padding": "same"}, {"groups": 2}])
def test_inside_the_mode_a_convolution_maps_as_pytorch_does(options: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 2, 4, 5, 6, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, 6, 4 // int(options.get("groups", 1)), 3, 3, generator=generator, dtype=torch.float64)
    with mapped_functions(compiled=True):
        found = torch.vmap(lambda x, weight: F.conv2d(x, weight, **options))(x, weight)
    expected = torch.stack([F.conv2d(one, own, **options) for one, own in zip(x, weight, strict=True)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": True}, {"enable_gqa": True}])
def test_attention_is_that_of_pytorch(options: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(2)
    heads = 1 if "enable_gqa" in options else 2
    q = torch.randn(3, 2, 5, 4, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, 3, heads, 5, 4, generator=generator, dtype=torch.float64)
    given = dict(options)
    if given.pop("mask", False):
        given["attn_mask"] = torch.rand(5, 5, generator=generator) < 0.7
    expected = F.scaled_dot_product_attention(q, k, v, **given)
    torch.testing.assert_close(attention(q, k, v, **given), expected, rtol=1e-12, atol=1e-13)
    with mapped_functions(compiled=False):
        mapped = torch.vmap(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **given))(q[None], k[None], v[None])
    torch.testing.assert_close(mapped[0], expected, rtol=1e-12, atol=1e-13)
