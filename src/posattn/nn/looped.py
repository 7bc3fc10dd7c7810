"""A looped positional Transformer: one layer for all iterations, whose MLP sees only what a symmetry leaves alone.

A schedule says which numbers a node reads in an iteration (`posattn.nn.schedules`), the symmetry what the MLP may see
of them (`posattn.nn.symmetry`):

    head h = Σ_k softmax(logits of the node's role, h)_k · invariant_k           (one more share goes to nothing)
    number ← carrier + MLP(heads)

Under a shift the invariants are differences to the node's own number, so a head is attention over the node and its
partners, whose rows sum to 1, minus the node's own number. The input enters as it is and leaves as it is: an encoder or
decoder in between would break f(x + t) = f(x) + t.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posattn import checks
from posattn.checks import choice, keep_whole, whole
from posattn.errors import PosattnError, require
from posattn.nn.architecture import Architecture
from posattn.nn.initial_weights import Init, linear_init
from posattn.nn.looped_attention import can_be_shown, matrices, step_weights
from posattn.nn.looped_step import check_input, chunked, combined, sloped_step
from posattn.nn.module import Model
from posattn.nn.module import Step as Trace
from posattn.nn.schedules import SCHEDULES, Schedule
from posattn.nn.symmetry import Action, checked_symmetry

#: Numbers that a step takes at once where no gradient is needed, times the MLP's width: what fits in a cache.
CHUNK = 1 << 19
READS = ("all", "median")


@dataclass(frozen=True, kw_only=True)
class Looped(Architecture):
    """Sizes of a looped positional Transformer."""

    kind = "looped"
    training_options: ClassVar[dict[str, Any]] = {"every": True}

    schedule: str = "scan"
    symmetry: tuple[str | Action, ...] = ("scale",)  # actions as JSON
    state_dim: int = 1
    hidden_dim: int = 32
    heads: int = 2
    mlp_layers: int = 3
    reads: str = "all"  # "median": every node gets the mean of the one or two in the middle

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("schedule", self.schedule, SCHEDULES)
        choice("reads", self.reads, READS)
        keep_whole(self, "state_dim", "hidden_dim", "heads", least=1)
        keep_whole(self, "mlp_layers", least=2)
        named = checked_symmetry(self.symmetry)
        object.__setattr__(self, "symmetry", tuple(s.to_json() if isinstance(s, Action) else s for s in named))
        require(
            len({len(action.invariants) for action in self.actions}) == 1,
            f"symmetry={self.symmetry!r:.60}: schedule='{self.schedule}' has two kinds of step, which would see "
            "different numbers. Name a translation, as ('scale', 'potential').",
        )
        require(
            self.reads == "all" or self.schedule == "bitonic",
            f"reads='{self.reads}', schedule='{self.schedule}': the middle is that of sorted numbers. Use 'bitonic'.",
        )
        require(
            self.state_dim == 1 or (self.translation is None and self.schedule != "grid"),
            f"state_dim={self.state_dim}: further numbers of a node would have to be invariant from the start. Use "
            "state_dim=1, or the symmetries 'scale' and 'linear' alone.",
        )

    @property
    def wiring(self) -> Schedule:
        return SCHEDULES[self.schedule]

    @property
    def translation(self) -> str | Action | None:
        """The symmetry that adds something, if there is one."""
        found = [one for one in checked_symmetry(self.symmetry) if one not in ("scale", "linear")]
        return found[0] if found else None

    @property
    def actions(self) -> tuple[Action, ...]:
        """How the numbers of each kind of step move."""
        return _actions(self.schedule, self.translation)

    @property
    def sloped(self) -> bool:
        """Whether a step is a carrier and a multiple of one number, with one factor above 0 and one below."""
        return not self.bias and self.state_dim == 1 and all(len(a.invariants) == 1 for a in self.actions)

    @property
    def bias(self) -> bool:
        return not {"scale", "linear"} & set(self.symmetry)

    @property
    def linear(self) -> bool:
        return "linear" in self.symmetry

    def family(self) -> str:
        return self.to_json()

    def parameters(self) -> dict[str, Init]:
        seen = len(self.actions[0].invariants)
        roles = sum(self.wiring.roles[: len(self.actions)])
        found = {"logits": Init((roles, self.heads, seen + 1), normal=1.0)}
        widths = [self.heads * self.state_dim, *[self.hidden_dim] * (self.mlp_layers - 1), self.state_dim]
        for place, (into, out) in enumerate(pairwise(widths)):
            found |= linear_init(f"layer{place}", into, out, bias=self.bias)
        if self.state_dim > 1:
            found |= linear_init("encoder", self.wiring.in_dim, self.state_dim - 1, bias=False)
            found |= linear_init("decoder", self.state_dim - 1, 1, bias=False)
        return found


@cache
def _actions(schedule: str, translation: str | Action | None) -> tuple[Action, ...]:
    return SCHEDULES[schedule].actions(translation)


class LoopedPositionalTransformer(Model[Looped]):
    """(batch, length, in_dim) → (batch, length, 1), at any length.

    >>> model = LoopedPositionalTransformer(schedule="bitonic", symmetry=("scale", "shift"),
    ...                                     generator=torch.Generator().manual_seed(0))
    >>> model(torch.zeros(2, 1000, 1)).shape
    torch.Size([2, 1000, 1])
    """

    describes = Looped

    def __init__(
        self,
        *,
        schedule: str = "scan",
        symmetry: tuple[str | Action, ...] | str | Action = ("scale",),
        state_dim: int = 1,
        hidden_dim: int = 32,
        heads: int = 2,
        mlp_layers: int = 3,
        reads: str = "all",
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            schedule: which nodes a node reads in each iteration: scan, bitonic, pairs or grid.
            symmetry: names among scale, shift, potential and linear, or an `Action`.
            state_dim: numbers that a node holds.
            hidden_dim: width of the MLP.
            heads: what the MLP sees: so many learned weighings of the invariants.
            mlp_layers: linear maps in the MLP, with a ReLU between each two.
            reads: "all" gives every node its own number, "median" the mean of those in the middle.
            generator: where first weights are drawn from; None is PyTorch's global one.
        """
        described = Looped(
            schedule=schedule, symmetry=checked_symmetry(symmetry), state_dim=state_dim, hidden_dim=hidden_dim,
            heads=heads, mlp_layers=mlp_layers, reads=reads,
        )  # fmt: skip
        super().__init__(described, generator)

    def build(self, architecture: Looped) -> None:
        self.kinds = [(action.invariants, action.carrier) for action in architecture.actions]
        self.wiring, self.sloped = architecture.wiring, architecture.sloped
        first = architecture.parameters()
        self.logits = nn.Parameter(torch.empty(first["logits"].shape))
        shapes = [first[f"layer{place}_weight"].shape for place in range(architecture.mlp_layers)]
        self.layers = nn.ModuleList(nn.Linear(into, out, bias=architecture.bias) for into, out in shapes)
        self.answer = nn.Identity()
        if architecture.state_dim > 1:
            self.encoder = nn.Linear(architecture.wiring.in_dim, architecture.state_dim - 1, bias=False)
            self.decoder = nn.Linear(architecture.state_dim - 1, 1, bias=False)

    def parts(self) -> list[tuple[str, str | None]]:
        return [("answer", None)]

    @torch.no_grad()
    def trace(self, *inputs: Tensor, **options: Tensor) -> list[Trace]:
        """The state after every iteration, with the attention that led there where an input is small enough."""
        last = super().trace(*inputs, **options)
        (x,) = inputs
        small = can_be_shown(self.wiring, x.shape[1], self.architecture.heads)
        shown = self.attention(x.shape[1]) if small else None
        return [
            *(
                Trace(f"iteration {number}", state, None if shown is None else shown[number - 1])
                for number, (state, _) in enumerate(self._iterations(x), 1)
            ),
            *last,
        ]

    def check(self, *inputs: Tensor) -> None:
        super().check(*inputs)
        check_input(self.wiring, *inputs)

    def forward(
        self, x: Float[Tensor, "batch length in_dim"], *, every: bool = False
    ) -> Float[Tensor, "batch length answers"]:
        """The answer of every node; `every`: the answers after each iteration that completes some blocks."""
        self.check(x)
        checks.switch("every", every)
        found, last = [], None
        for state, complete in self._iterations(x):
            last = state
            if every and complete:
                found.append(self._left(state))
        if every and found:
            return torch.cat(found, dim=-1)
        return self.answer(self._answered(self._left(self._entered(x) if last is None else last)))

    def _iterations(self, x: Float[Tensor, "batch length in_dim"]) -> Iterator[tuple[Tensor, bool]]:
        """The state after every iteration, and whether it completes some blocks."""
        sloped = self.sloped and not torch.is_grad_enabled()
        step = sloped_step(self.slopes(), self.kinds, self.wiring.roles, x.dtype) if sloped else self._step
        step = chunked(step, CHUNK // self.architecture.hidden_dim)
        yield from self.wiring.iterations(self._entered(x), x, step, len(self.kinds))

    def _step(self, values: Tensor, kind: int, role: Tensor | int) -> Tensor:
        """One step: numbers (batch, m, values, width) → (batch, m, width). `kind`: which of a chain."""
        invariants, carrier = self.kinds[kind]
        seen = combined(values, invariants)
        first = sum(self.wiring.roles[:kind])
        shares = self.logits[role + first].softmax(-1)[..., 1:]  # the first share goes to nothing
        heads = (seen.unsqueeze(-3) * shares.unsqueeze(-1)).sum(-2).flatten(2)  # over the invariants
        return combined(values, (carrier,)).squeeze(2) + self._mlp(heads) if any(carrier) else self._mlp(heads)

    def slopes(self) -> Float64[Tensor, "roles 2"]:
        """What the MLP answers to the invariants 1 and −1, for each role: with `sloped`, all there is to know of it.

        In float64 whatever the weights are, so that next to nothing is added to what they say.
        """
        if not self.sloped:
            raise PosattnError(
                "a step has slopes where its MLP sees one number and no bias: symmetry=('scale', 'shift'), for example."
            )
        shares = self.logits.double().softmax(-1)[..., 1]  # roles, heads
        seen = torch.stack([shares, -shares], dim=1)
        *hidden, last = self.linear_maps()
        for weight in hidden:
            seen = seen @ weight.double().T
            seen = seen if self.architecture.linear else seen.relu()
        return (seen @ last.double().T).squeeze(-1)

    def _mlp(self, seen: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            seen = layer(seen) if self.architecture.linear else layer(seen).relu()
        return last(seen)

    def linear_maps(self) -> list[Float[Tensor, "_ _"]]:
        """The matrices of the MLP, (out, into) each, in the order that they are applied."""
        found = []
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            found.append(layer.weight)
        return found

    def _entered(self, x: Tensor) -> Tensor:
        own = x[..., :1]
        return own if self.architecture.state_dim == 1 else torch.cat([own, self.encoder(x)], dim=-1)

    def _left(self, state: Tensor) -> Tensor:
        own = state[..., :1]
        return own if self.architecture.state_dim == 1 else own + self.decoder(state[..., 1:])

    def _answered(self, answer: Tensor) -> Tensor:
        if self.architecture.reads == "all":
            return answer
        length = answer.shape[1]
        low, high = answer[:, (length - 1) // 2], answer[:, length // 2]
        return (low + (high - low) / 2)[:, None].expand(-1, length, -1)

    def attention(self, length: int) -> Float[Tensor, "iterations heads nodes nodes"]:
        """The attention weights of every iteration and head, as `posattn.nn.looped_attention` states them.

        Under a shift rows sum to 1; without a translation what is missing goes to a sink that holds 0. `length` counts
        the nodes of an input: n·n for a graph or a table of side n.
        """
        weights = step_weights(self.logits.detach(), self.kinds, self.wiring.roles)
        return matrices(self.wiring, whole("length", length, least=1), weights)
