"""Norms of a model's matrices, for one model or a whole fleet at once.

    spectral norm   ‖W‖₂, the largest singular value
    (2,1)-norm      ‖W‖_{2,1} = Σ_j ‖W e_j‖₂, the sum of the columns' Euclidean norms; x·W has one column per output

Every tensor may have leading axes (replicas, layers); norms keep them.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posattn import checks
from posattn.errors import require
from posattn.nn import Architecture
from posattn.nn.initial_weights import Params

#: The largest slope of the activation: of ReLU, and of both forms of GELU (x·Φ(x) has it at x = √2).
RELU_SLOPE = 1.0
GELU_SLOPES = {"erf": 1.1289041, "tanh": 1.1289931}


#: Fewest matrices that are worth a thread of their own.
SHARE = 32


class Norms(NamedTuple):
    """What the bounds need of a model's weights; every field has the leading axes of the parameters, without layers."""

    spectral: Tensor  # B₂: the largest spectral norm of any matrix of any layer
    column: Tensor  # B_{2,1}: the largest (2,1)-norm of any matrix of any layer
    query_key: Tensor | None  # B_QK: the largest ‖W_Q,h·W_K,hᵀ‖₂/√d_k; None where attention does not see values
    by_map: dict[str, tuple[Tensor, Tensor]]  # (spectral, column) norms of every map, with the layers' axis


#: The maps of a layer that the bounds are about; encoder and decoder count as layers of their own.
LAYER_MAPS = ("value", "output", "mlp_in", "mlp_middle", "mlp_out")


def spectral_norm(weight: Float[Tensor, "*lead into out"]) -> Float[Tensor, "*lead"]:
    """The largest singular value of each matrix: of its smaller Gram matrix, which is faster than the SVD."""
    wide = _checked(weight).double()
    gram = wide.mT @ wide if wide.shape[-1] <= wide.shape[-2] else wide @ wide.mT
    return _largest_eigenvalue(gram.reshape(-1, *gram.shape[-2:])).reshape(gram.shape[:-2]).clamp(min=0).sqrt()


def _largest_eigenvalue(gram: Float[Tensor, "count side side"]) -> Float[Tensor, "count"]:
    """LAPACK takes one matrix after the other on one core, so every core gets a share of them."""
    cores = 1 if gram.is_cuda else min(torch.get_num_threads(), max(1, len(gram) // SHARE))
    if cores == 1:
        return torch.linalg.eigvalsh(gram)[..., -1]
    with ThreadPoolExecutor(cores) as pool:
        return torch.cat(list(pool.map(torch.linalg.eigvalsh, gram.chunk(cores))))[..., -1]


def column_norm(weight: Float[Tensor, "*lead into out"]) -> Float[Tensor, "*lead"]:
    """The sum of the Euclidean norms of each matrix's columns."""
    return _checked(weight).double().norm(dim=-2).sum(-1)


def _checked(weight: Tensor) -> Tensor:
    checks.tensor("weight", weight)
    require(
        weight.dim() >= 2 and weight.is_floating_point(),
        f"weight is {tuple(weight.shape)}, {weight.dtype}: norms are those of matrices, floating point.",
    )
    return checks.finite("weight", weight)


@torch.no_grad()
def norms(architecture: Architecture, p: Params) -> Norms:
    """Norms of every replica at once; parameters have a leading replica axis."""
    check_weights(architecture, p)
    by_map = {}
    for name in (*LAYER_MAPS, "encoder", "decoder"):
        weight = p.get(f"{name}_weight")
        if weight is not None:
            by_map[name] = (spectral_norm(weight), column_norm(weight))
    spectral, column = (
        torch.stack([pair[which].reshape(len(pair[which]), -1).amax(1) for pair in by_map.values()]).amax(0)
        for which in (0, 1)
    )
    sees_values = attends_by_value(architecture)
    return Norms(spectral, column, query_key_norm(architecture, p) if sees_values else None, by_map)


def check_weights(architecture: Architecture, p: Params) -> None:
    """Raise where `p` is not what a model of this architecture holds, with a leading axis, or holds NaN."""
    checks.instance("architecture", architecture, Architecture, fix="pass what describes a model, model.architecture")
    checks.instance("p", p, dict, fix="pass a model's tensors by name, model.replica()")
    for name, shape in architecture.shapes().items():
        require(name in p, f"p has no tensor {name!r}, which a {architecture.kind} model holds: pass model.replica().")
        require(
            tuple(checks.tensor(name, p[name]).shape[1:]) == shape,
            f"tensor {name!r} is {tuple(p[name].shape)}: a {architecture.kind} model holds {shape}, after one axis for "
            "replicas.",
        )
        checks.finite(f"tensor {name!r} of the model", p[name])


def attends_by_value(architecture: Architecture) -> bool:
    """Whether attention weights depend on the input."""
    checks.instance("architecture", architecture, Architecture, fix="pass what describes a model, model.architecture")
    positional = getattr(architecture, "positional", None)
    if positional is not None:
        return not positional
    return architecture.kind not in ("positional", "positional-exact", "mixed-positional")


def query_key_norm(architecture: Architecture, p: Params) -> Float[Tensor, "replicas"]:
    """B_QK: how strongly logits depend on values, over all layers and heads."""
    check_weights(architecture, p)
    heads: int = architecture.heads  # type: ignore[attr-defined]  # every architecture with queries has heads
    both = (p[f"{name}_weight"].double() for name in ("query", "key"))
    query, key = (weight.unflatten(-1, (heads, -1)).transpose(-3, -2) for weight in both)
    logits = query @ key.mT / query.shape[-1] ** 0.5
    return spectral_norm(logits).flatten(1).amax(1)
