"""How much a positional Transformer can change when its input does: bounds from above and from below.

Between two ReLUs the model is linear, X ↦ Σ_h A_h·X·M_h with A_0 = I (`posattn.nn.fast.folding`), and ReLU has slope at
most 1, so the product of these maps' spectral norms bounds the Lipschitz constant on all of R^n. No such bound exists
for a standard Transformer: its attention depends on values, and the slope grows with them (Kim, Papamakarios, Mnih,
"The Lipschitz constant of self-attention", 2021). From below, ‖J(x)v‖/‖v‖ for the Jacobian at any input and any v.

Norms are Euclidean, over all nodes and features together.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn import checks
from posattn.errors import PosattnError, require
from posattn.nn import Model, PositionalTransformer, StandardTransformer
from posattn.nn.fast.folding import fold, folded_decoder, middle_maps
from posattn.theory.norms import check_weights

#: The largest matrix (side) whose spectral norm is computed whole; beyond, ‖Σ A_h⊗M_h‖ ≤ Σ ‖A_h‖·‖M_h‖ is used.
LARGEST = 1500
#: Computed norms are made larger by this share, far more than their rounding errors in float64.
MARGIN = 1e-9


@dataclass(frozen=True)
class Upper:
    """A certified upper bound: the product of the layers' factors and the decoder's."""

    bound: float
    layers: tuple[float, ...]
    decoder: float


def upper(model: Model) -> Upper:
    """A Lipschitz constant of the model on all inputs of its length."""
    checks.instance("model", model, Model, fix="pass a model, as posattn.load(file) gives it")
    if not isinstance(model, PositionalTransformer):
        raise PosattnError(
            f"a {model.architecture.kind} model has no Lipschitz bound on an unbounded domain that its norms give: "
            "where attention depends on values, its slope grows with them. `lower` measures it in a range."
        )
    sizes = model.architecture
    check_weights(sizes, model.replica())
    p = {name: tensor.detach().double() for name, tensor in model.replica().items()}
    attention = copy.deepcopy(model).double().attention().detach()
    identity = torch.eye(sizes.nodes, dtype=torch.float64, device=attention.device)
    factors = []
    for index, folded in enumerate(fold(p, sizes.heads)):
        mixes = torch.cat([identity.unsqueeze(0), attention[index]])
        matrices = folded.matrices[0]
        if index == 0:  # scratchpad nodes have no input, and constants do not change
            mixes, matrices = mixes[:, :, : sizes.length], matrices[:, : sizes.in_dim]
        factor = _mixed_norm(mixes, matrices)
        for weight, _ in middle_maps(p, index):
            factor *= _norm(weight[0])
        factors.append(factor)
    decoder = _norm(folded_decoder(p)[0][0])
    bound = decoder
    for factor in factors:
        bound *= factor
    return Upper(bound, tuple(factors), decoder)


def _norm(weight: Float[Tensor, "into out"]) -> float:
    return float(torch.linalg.matrix_norm(weight, 2)) * (1 + MARGIN)


def _mixed_norm(mixes: Float[Tensor, "heads to from_"], matrices: Float[Tensor, "heads into out"]) -> float:
    """‖X ↦ Σ_h A_h·X·M_h‖: of the matrix Σ_h A_h ⊗ M_hᵀ itself where it is not too large."""
    rows, columns = mixes.shape[1] * matrices.shape[2], mixes.shape[2] * matrices.shape[1]
    if max(rows, columns) > LARGEST:
        parts = torch.linalg.matrix_norm(mixes, 2) * torch.linalg.matrix_norm(matrices, 2)
        return float(parts.sum()) * (1 + MARGIN)
    whole = torch.einsum("hij,hkl->iljk", mixes, matrices).reshape(rows, columns)
    return _norm(whole)


@dataclass(frozen=True)
class Lower:
    """The largest slope that was found, and where."""

    bound: float
    at: Float[Tensor, "length in_dim"]


def lower(
    model: PositionalTransformer | StandardTransformer,
    *,
    scale: float = 2.0,
    starts: int = 8,
    rounds: int = 10,
    generator: torch.Generator,
) -> Lower:
    """The largest ‖J(x)‖ over some inputs in ±scale, by power iteration: the Lipschitz constant is at least that.

    After every iteration each input moves a little along the direction that it stretches most, and stays where the
    slope has grown.
    """
    checks.instance(
        "model",
        model,
        (PositionalTransformer, StandardTransformer),
        fix="slopes are measured of positional and standard models for numbers",
    )
    whole = checks.whole("starts", starts) >= 1 and checks.whole("rounds", rounds) >= 1
    require(whole, f"starts={starts}, rounds={rounds}: at least one of each.")
    require(checks.real("scale", scale) > 0, f"scale={scale}: inputs lie in ±scale, above 0.")
    checks.generator(generator)
    sizes = model.architecture
    check_weights(sizes, model.replica())
    apply = copy.deepcopy(model).double().requires_grad_(False)
    shape = (starts, sizes.length, sizes.in_dim)
    x = scale * (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1)
    v = torch.randn(shape, generator=generator, dtype=torch.float64)
    best, at = torch.full((starts,), -1.0, dtype=torch.float64), x.clone()
    for _ in range(rounds):
        slope, v = _stretched(apply, x, v)
        grown = slope > best
        best, at = torch.where(grown, slope, best), torch.where(grown[:, None, None], x, at)
        step = 0.1 * scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        x = (at + step).clamp(-scale, scale)
    slope, _ = _stretched(apply, at, v, iterations=3 * sizes.length * sizes.in_dim)
    top = int(slope.argmax())
    return Lower(float(slope[top]), at[top])


def _stretched(
    apply: Callable[[Tensor], Tensor], x: Tensor, v: Tensor, iterations: int = 5
) -> tuple[Float[Tensor, "starts"], Tensor]:
    """‖J(x)v‖/‖v‖ for the v that power iteration on JᵀJ gives, one for every input; samples do not mix."""
    x = x.detach().requires_grad_()
    y = apply(x)
    u = torch.zeros_like(y, requires_grad=True)
    (pulled,) = torch.autograd.grad(y, x, u, create_graph=True)  # Jᵀu, linear in u: its derivative along v is Jv
    slope = torch.zeros(x.shape[0], dtype=x.dtype)
    for _ in range(iterations):
        v = v / v.flatten(1).norm(dim=1).clamp(min=1e-300)[:, None, None]
        (moved,) = torch.autograd.grad(pulled, u, v, retain_graph=True)
        slope = moved.flatten(1).norm(dim=1)
        (back,) = torch.autograd.grad(y, x, moved, retain_graph=True)
        v = torch.where((back.flatten(1).norm(dim=1) > 0)[:, None, None], back, v)
    return slope, v
