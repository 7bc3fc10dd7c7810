"""Sparse token selection: average the q tokens you are told to.

`selection` is STS_q of Wang et al. 2024 (arXiv 2406.06893): one subset per sample. `sparse-averaging` is q-sparse
averaging of Sanford, Hsu, Telgarsky 2023: every token has a subset of its own.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.checks import choice, finite, keep_real, keep_switches, whole
from posattn.errors import require
from posattn.tasks.base import FIXED, Task, check_described, check_dtype, check_inputs, drawing_device
from posattn.tasks.scoring import check_scored

REDRAWS = ("sample", "step")


class SelectionInputs(NamedTuple):
    """Tokens, and the places of those to average: (batch, q), or (batch, tokens, q) with a subset per token.

    `key` names the positional encoding that a model with stochastic encodings draws for the sample; the target does
    not depend on it.
    """

    x: Float[Tensor, "batch tokens dim"]
    subset: Int[Tensor, "batch *tokens q"]
    key: Int[Tensor, " batch"] | None = None


@dataclass(frozen=True)
class SelectionTask(Task):
    """Target (1/q) Σ_{i∈y} x_i with x_i iid N(0, I) and y a uniform q-subset; loss κ·E‖f − target‖²."""

    name: str
    summary: str
    every_token: bool = field(default=False, metadata=FIXED)
    kappa: float = 0.5

    metric_name = "squared error"

    def __post_init__(self) -> None:
        check_described(self)
        keep_switches(self, "every_token")
        keep_real(self, "kappa")
        require(
            self.kappa > 0, f"kappa={self.kappa!r}: the squared error's weight is above 0 and finite. Use 0.5 or 1."
        )

    def sample(
        self,
        count: int,
        *,
        length: int = 200,
        subset_size: int = 3,
        dim: int = 5,
        redraw: str = "sample",
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[SelectionInputs, Float[Tensor, "count *tokens dim"]]:
        """`redraw` says how often the key changes: with every "sample", or once for all drawn in one "step"."""
        choice("redraw", redraw, REDRAWS)
        where = drawing_device(count, generator, device)
        for name, value in (("subset_size", subset_size), ("length", length), ("dim", dim)):
            whole(name, value)
        require(
            1 <= subset_size <= length,
            f"subset_size={subset_size}, length={length}: a subset has at least one token and at most all of them. "
            f"Use subset_size=1 or more, and a length of at least {max(subset_size, 1)}.",
        )
        require(dim >= 1, f"dim={dim}: a token has at least one coordinate.")
        check_dtype(dtype)
        x = torch.randn(count, length, dim, generator=generator, device=where, dtype=dtype)
        lead = (count, length) if self.every_token else (count,)
        # The places of the q largest of iid uniforms are a uniform q-subset.
        subset = torch.rand(*lead, length, generator=generator, device=where).topk(subset_size, dim=-1).indices
        keys = torch.randint(2**62, (count if redraw == "sample" else 1,), generator=generator, device=where)
        inputs = SelectionInputs(x, subset.sort(-1).values, keys.expand(count).contiguous())
        return inputs, _averages(inputs)

    def target(self, inputs: SelectionInputs) -> Float[Tensor, "batch *tokens dim"]:
        x, subset = check_inputs(self.name, inputs, SelectionInputs)[:2]
        expected = 3 if self.every_token else 2
        require(
            x.dim() == 3
            and subset.dim() == expected
            and subset.shape[:-1] == x.shape[: expected - 1]
            and subset.shape[-1] >= 1
            and subset.dtype == torch.int64,
            f"task '{self.name}': x {tuple(x.shape)} and subset {tuple(subset.shape)}, {subset.dtype}, must be "
            f"(batch, tokens, dim) and (batch, {'tokens, ' if self.every_token else ''}q) with q ≥ 1, int64.",
        )
        require(
            x.is_floating_point(), f"task '{self.name}': x has dtype {x.dtype}, it must be floating point: x.float()."
        )
        finite(f"task '{self.name}': x", x)
        require(
            bool(((subset >= 0) & (subset < x.shape[1])).all()),
            f"task '{self.name}': subset holds a place outside 0 … {x.shape[1] - 1}.",
        )
        return _averages(inputs)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """κ times the squared error, summed over coordinates, averaged over samples (and tokens)."""
        return self.kappa * self.metric(prediction, target)

    def metric(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Squared error, summed over coordinates, averaged over samples (and tokens)."""
        averaged = (-2, -1) if self.every_token else (-1,)
        check_scored(self.name, prediction, target, axes=1 + len(averaged))
        return (prediction - target).square().sum(-1).mean(dim=averaged)

    def example(self) -> str:
        x = torch.tensor([[[4.0], [1.0], [8.0]]])
        subset = torch.tensor([[0, 2]])
        shown = "{0, 2}"
        if self.every_token:
            subset = torch.tensor([[[0, 2], [1, 2], [0, 1]]])
            shown = "{0, 2} {1, 2} {0, 1}"
        y = self.target(SelectionInputs(x, subset)).flatten().tolist()
        return f"4 1 8, {shown} → {' '.join(f'{value:g}' for value in y)}"


def _averages(inputs: SelectionInputs) -> Float[Tensor, "batch *tokens dim"]:
    x, subset, _ = inputs
    flat = subset.flatten(1)
    chosen = x.gather(1, flat.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    return chosen.unflatten(1, tuple(subset.shape[1:])).double().mean(dim=-2).to(x.dtype)


TASKS = (
    SelectionTask("selection", "average of the q tokens in a given subset"),
    SelectionTask("sparse-averaging", "the same, every token with its own subset", every_token=True),
)
