"""What every model for sparse token selection checks of its inputs."""

import torch
from torch import Tensor

from posattn.checks import finite
from posattn.errors import PosattnError, require
from posattn.nn.module import values_known


def check_selection(x: Tensor, subset: Tensor, key: Tensor, *, dim: int) -> None:
    """Raise where the inputs are not samples of token selection: shapes always, values where they are known."""
    require(
        x.dim() == 3 and x.shape[2] == dim and x.is_floating_point(),
        f"x is {tuple(x.shape)}, {x.dtype}: the model takes (batch, tokens, {dim}), floating point.",
    )
    require(
        subset.dim() == 2 and subset.shape[0] == x.shape[0] and subset.dtype == torch.int64,
        f"subset is {tuple(subset.shape)}, {subset.dtype}: the model takes (batch, q), int64, one row per sample.",
    )
    require(
        key.shape == x.shape[:1] and key.dtype == torch.int64,
        f"key is {tuple(key.shape)}, {key.dtype}: the model takes (batch,), int64, one per sample.",
    )
    tokens, q = x.shape[1], subset.shape[1]
    require(1 <= q <= tokens, f"q={q} of {tokens} tokens: a subset has at least one and at most all. Choose q so.")
    if not values_known(x) or not values_known(subset):
        return
    finite("x", x)
    require(
        bool(((subset >= 0) & (subset < tokens)).all()),
        f"subset holds a place outside 0 … {tokens - 1}: correct it.",
    )
    twice = (subset.sort(1).values.diff(dim=1) == 0).any(1)
    if twice.any():
        sample = int(twice.nonzero()[0])
        raise PosattnError(f"subset {subset[sample].tolist()} of sample {sample} names a place twice: name each once.")
