"""What the cases of the kernels share: a line for every quantity, and what stands beside it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nn import oracle
from nn.fast import layers
from nn.fast.equality import traced
from posattn.nn.fast.products import is_exact

#: Float32 sums of a few hundred terms: each adds at most 2⁻²⁴ of the whole.
FLOAT32 = 256 * 2.0**-24
#: Unit roundoff of what a kernel rounds its factors to.
ROUNDOFF = {"float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11}
#: Most roundings between an input and a gradient: N, s, the weights, M, y, g, the logits' derivative, ds, du, uᵀ·right.
ROUNDINGS = 10


class Line(NamedTuple):
    case: str
    quantity: str
    error: float
    bound: float


def norm_error(found: Tensor, expected: Tensor, least: float = 0.0) -> float:
    """‖found − expected‖/‖expected‖, or as a part of `least` where that is larger."""
    assert found.shape == expected.shape
    scale = max(float(expected.norm()), least)
    difference = float((found.detach().cpu().double() - expected).norm())
    return difference / scale if scale else difference


def compared(
    case: str,
    fast: Callable[..., Tensor],
    formula: Callable[..., Tensor],
    inputs: Sequence[Tensor | None],
    bound: float,
    *,
    relu: bool = True,
) -> Iterator[Line]:
    """Value and gradients of `fast`, in the inputs' dtypes, beside those of the formula in float64 on the CPU.

    Rounding may switch a ReLU that is almost at 0, and a gradient is then off by all of it: none is sent there.
    """
    exact = [None if x is None else x.detach().cpu().double() for x in inputs]
    before = formula(*exact)
    weighing = layers.numbers(*before.shape, seed=99)
    if relu:
        weighing[before.abs() < 8 * bound] = 0.0
    first = next(x for x in inputs if x is not None)
    weighing = weighing.to(first.dtype)
    found = layers.traced(fast, inputs, weighing.to(first.device))
    whole = (lambda *given: formula(*given).relu()) if relu else formula
    expected = layers.traced(whole, exact, weighing.double())
    yield Line(case, "value", norm_error(found.value, expected.value), bound)
    largest = max(float(x.norm()) for x in expected.gradients if x is not None)
    for at, (x, y) in enumerate(zip(found.gradients, expected.gradients, strict=True)):
        if x is not None and y is not None:
            # With one node the softmax is 1: the derivatives of its logits are 0, or what rounding makes of that.
            yield Line(case, f"gradient {at}", norm_error(x, y, 0.01 * largest), bound)


def drawn(device: str, *shapes: tuple[int, ...], scales: Sequence[float] = ()) -> list[Tensor]:
    pairs = zip(shapes, scales or [1.0] * len(shapes), strict=True)
    return [layers.numbers(*shape, seed=at, scale=k).float().to(device) for at, (shape, k) in enumerate(pairs)]


def strewn(*tensors: Tensor) -> list[Tensor]:
    return [layers.scattered(x) for x in tensors]


@contextmanager
def rounding() -> Iterator[None]:
    """Products of float32 rounded to TF32."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def refuses_twice(layer: Callable[..., Tensor], given: Sequence[Tensor]) -> bool:
    from posattn.errors import PosattnError

    inputs = [x.detach().requires_grad_() for x in given]
    try:
        torch.autograd.grad(layer(*inputs).sum(), inputs, create_graph=True)
    except PosattnError as error:
        return "second derivative" in str(error)
    return False


def kept_precision(case: str, layer: Callable[..., Tensor], given: Sequence[Tensor]) -> Iterator[Line]:
    """A layer goes back as exactly as it went forward, whatever the process has set by then, and leaves that alone."""
    inputs = [x.detach().requires_grad_() for x in given]
    with rounding():
        expected = torch.autograd.grad(layer(*inputs).sum(), inputs)
        value = layer(*inputs).sum()
    found = torch.autograd.grad(value, inputs)
    yield Line(case, "rounded on the way back too", float(not all(map(torch.equal, found, expected))), 0.0)
    exact = torch.autograd.grad(layer(*inputs).sum(), inputs)
    value = layer(*inputs).sum()
    with rounding():
        found = torch.autograd.grad(value, inputs)
        yield Line(case, "the process keeps its own", float(is_exact()), 0.0)
    yield Line(case, "exact on the way back too", float(not all(map(torch.equal, found, exact))), 0.0)
    yield Line(case, "there is a difference", float(all(map(torch.equal, exact, expected))), 0.0)


def model(kind: str, form: str, device: str, *, given: int = 5, **options: Any) -> Iterator[Line]:
    """A model in the form that is made of these kernels, against the model itself in float64.

    It has three layers, if the options do not say otherwise, is built for five numbers, and is given some.
    """
    from posattn import PositionalTransformer, StandardTransformer
    from posattn.nn.fast import positional, standard

    cls, forms = (PositionalTransformer, positional) if kind == "positional" else (StandardTransformer, standard)
    sizes: dict[str, Any] = {"length": 5, "layers": 3, "in_dim": 2, "out_dim": 3, "hidden_dim": 13, "embed_dim": 6}
    wholes = [oracle.stirred(cls(**sizes | options), seed) for seed in range(2)]
    x = oracle.numbers(2, 4, given, 2)
    yield from same_model(f"{kind} model, {form}, {given}, {options}", getattr(forms, form), wholes, device, x)


def mixed_model(kind: str, device: str) -> Iterator[Line]:
    """A mixed-type model of three layers, which reads node 0."""
    from posattn import MixedPositionalTransformer, MixedStandardTransformer
    from posattn.nn.fast import mixed_type

    cls = MixedPositionalTransformer if kind == "positional" else MixedStandardTransformer
    sizes: dict[str, Any] = {"length": 8, "characters": 5, "vocabulary": 13, "embed_dim": 6, "hidden_dim": 7}
    every: list[dict[str, Any]] = [{}, {"bias": False, "mlp_layers": 3}, {"layers": 1}]
    for options in every:
        wholes = [oracle.stirred(cls(**sizes | options), seed) for seed in range(2)]
        characters = torch.randint(0, 13, (2, 4, 5), generator=torch.Generator().manual_seed(1))
        given = characters, oracle.numbers(2, 4, 3)
        yield from same_model(f"mixed {kind} model, {options}", mixed_type.by_rows, wholes, device, *given)


def same_model(case: str, form: Any, wholes: list[Any], device: str, *inputs: Tensor) -> Iterator[Line]:
    """Value and gradients of a form of a model in float32 beside those of the model itself in float64."""
    from posattn.nn.fast.any_model import mapped

    sizes, p = wholes[0].architecture, oracle.stacked(wholes)
    near = {name: tensor.float().to(device) for name, tensor in p.items()}
    given = (x.float().to(device) if x.is_floating_point() else x.to(device) for x in inputs)
    y, gradients = traced(lambda *tensors: form(sizes, *tensors).cpu(), near, *given)
    expected, exact = traced(mapped(sizes), p, *inputs)
    yield Line(case, "value", norm_error(y, expected), 3 * FLOAT32)  # one layer after another
    largest = max(float(gradient.norm()) for gradient in exact.values())
    for name, gradient in exact.items():
        found = gradients[name] if name in gradients else torch.zeros_like(gradient)
        yield Line(case, f"gradient of {name}", norm_error(found, gradient, 0.01 * largest), 6 * FLOAT32)
