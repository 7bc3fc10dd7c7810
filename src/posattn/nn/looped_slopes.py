"""The step of a looped model without an MLP: the few numbers that schedule and symmetry leave are learned themselves.

Where a symmetry leaves one number d, or the step is linear in what is left,

    number ← carrier + up·relu(d) + down·relu(−d)            or            number ← carrier + Σ_k factor_k·invariant_k

for each role of each kind of step. The looped positional Transformer has an MLP in their place
(`posattn.nn.looped`), and what it learns are these numbers (`posattn.nn.law`).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posattn import checks
from posattn.errors import require
from posattn.nn.architecture import Architecture
from posattn.nn.initial_weights import Init
from posattn.nn.looped import Looped
from posattn.nn.looped_step import check_input, combined
from posattn.nn.module import Model
from posattn.nn.symmetry import Action, checked_symmetry

#: Deviation of first numbers, small as the slopes of a new MLP are: from 0.5, some seeds never learn to sort.
FIRST = 0.1


@dataclass(frozen=True, kw_only=True)
class LoopedSlopes(Architecture):
    """A schedule and a symmetry, as of a looped positional Transformer."""

    kind = "looped-slopes"
    training_options: ClassVar[dict[str, Any]] = {"every": True}

    schedule: str = "scan"
    symmetry: tuple[str | Action, ...] = ("scale", "shift")  # actions as JSON

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "symmetry", self.looped.symmetry)
        require(
            self.looped.sloped or self.looped.linear,
            f"symmetry={self.symmetry!r}: it leaves more to learn than slopes. Use ('scale', 'shift') or ('scale', "
            "'linear'), or a looped positional Transformer.",
        )

    @property
    def looped(self) -> Looped:
        """The same with an MLP."""
        return Looped(schedule=self.schedule, symmetry=checked_symmetry(self.symmetry))

    def parameters(self) -> dict[str, Init]:
        looped = self.looped
        numbers = len(looped.actions[0].invariants) * (1 if looped.linear else 2)
        return {"slopes": Init((sum(looped.wiring.roles[: len(looped.actions)]), numbers), normal=FIRST)}


class LoopedSlopesModel(Model[LoopedSlopes]):
    """(batch, length, in_dim) → (batch, length, 1), at any length.

    >>> model = LoopedSlopesModel(schedule="bitonic", generator=torch.Generator().manual_seed(0))
    >>> model.slopes.shape, model(torch.zeros(2, 1000, 1)).shape
    (torch.Size([2, 2]), torch.Size([2, 1000, 1]))
    """

    describes = LoopedSlopes

    def __init__(
        self,
        *,
        schedule: str = "scan",
        symmetry: tuple[str | Action, ...] | str | Action = ("scale", "shift"),
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first numbers.

        Args:
            schedule: which nodes a node reads in each iteration: scan, bitonic, pairs or grid.
            symmetry: names among scale, shift, potential and linear, or an `Action`.
            generator: where first numbers are drawn from; None is PyTorch's global one.
        """
        super().__init__(LoopedSlopes(schedule=schedule, symmetry=checked_symmetry(symmetry)), generator)

    def build(self, architecture: LoopedSlopes) -> None:
        looped = architecture.looped
        self.kinds = [(action.invariants, action.carrier) for action in looped.actions]
        self.wiring, self.linear = looped.wiring, looped.linear
        self.slopes = nn.Parameter(torch.empty(architecture.parameters()["slopes"].shape))
        self.answer = nn.Identity()

    def parts(self) -> list[tuple[str, str | None]]:
        return [("answer", None)]

    def check(self, *inputs: Tensor) -> None:
        super().check(*inputs)
        check_input(self.wiring, *inputs)

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, every: bool = False
    ) -> Float[Tensor, "batch length answers"]:
        """The answer of every node; `every`: the answers after each iteration that completes some blocks."""
        self.check(x)
        last, found = x[..., :1], []
        for state, complete in self.wiring.iterations(last, x, self._step, len(self.kinds)):
            last = state
            if complete:
                found.append(state)
        return torch.cat(found, dim=-1) if checks.switch("every", every) and found else self.answer(last)

    def _step(self, values: Tensor, kind: int, role: Tensor | int) -> Tensor:
        """One step: numbers (batch, m, values, 1) → (batch, m, 1). `kind`: which of a chain."""
        invariants, carrier = self.kinds[kind]
        seen = combined(values, invariants)
        parts = seen if self.linear else torch.cat([seen.relu(), (-seen).relu()], dim=2)
        factors = self.slopes[role + sum(self.wiring.roles[:kind])]
        moved = (parts * factors[..., None]).sum(2)
        return combined(values, (carrier,)).squeeze(2) + moved if any(carrier) else moved
