"""Numbers that a text lets through: a model that sees of the characters only which of them are equal.

A number has some places where its label may stand. At each, given pairs of characters are compared (`compared`), and

    gate  =  Σ over places  MLP(which of the pairs are equal)
    value =  gate · number

Then two values at a time become one, until one is left:

    (a, p), (b, q)  →  a + b + MLP(a·q, b·p), p + q − p·q        without biases, and with other weights into it where
                                                                  the characters of `decides` are equal

So f(c·x) = c·f(x) in the numbers, for every c > 0, and characters may be renamed at will: a label that was never seen
is like any other. What is compared with what is given, as a schedule is; what follows from it is learned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posattn.checks import keep_whole, whole
from posattn.errors import PosattnError, require
from posattn.nn.architecture import Architecture
from posattn.nn.initial_weights import Init, linear_init
from posattn.nn.mixed_type import check_prompts
from posattn.nn.module import Model

Pair = tuple[int, int]
#: For every number and every place of its label, the pairs of characters that are compared.
Compared = tuple[tuple[tuple[Pair, ...], ...], ...]
FIX = "name, for every number and every place of its label, pairs of characters, as posattn.tasks.mixed.compared() does"


@dataclass(frozen=True, kw_only=True)
class MixedGated(Architecture):
    """Which characters are compared, and the width of both MLPs."""

    kind = "mixed-gated"

    compared: Compared
    decides: Pair = (0, 0)
    characters: int = 90
    hidden_dim: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole(self, "characters", "hidden_dim", least=1)
        object.__setattr__(self, "decides", self._pair("decides", self.decides))
        try:
            found = tuple(
                tuple(tuple(self._pair("compared", pair) for pair in place) for place in number)
                for number in self.compared
            )
        except TypeError:
            raise PosattnError(f"compared={self.compared!r:.60}: {FIX}.") from None
        places, pairs = {len(number) for number in found}, {len(place) for number in found for place in number}
        require(
            len(places) == len(pairs) == 1 and 0 not in pairs,
            f"compared={self.compared!r:.60}: all numbers need equally many places and pairs; {FIX}.",
        )
        object.__setattr__(self, "compared", found)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Architecture:
        return super().of_fields({**fields, "compared": _tuples(fields.get("compared"))})

    def _pair(self, name: str, pair: Any) -> Pair:
        two = isinstance(pair, tuple | list) and len(pair) == 2
        require(two, f"{name}={pair!r:.60}: a pair is two places of characters, as (0, 4).")
        left, right = (whole(f"a place of {name}", place, least=0) for place in pair)
        inside = max(left, right) < self.characters
        require(inside, f"{name}={pair!r:.60}: characters have the places 0 … {self.characters - 1}.")
        return left, right

    @property
    def numbers(self) -> int:
        return len(self.compared)

    def parameters(self) -> dict[str, Init]:
        hidden, pairs = self.hidden_dim, len(self.compared[0][0])
        found: dict[str, Init] = {}
        for name, into, bias in (("gate", pairs, True), ("join", 4, False)):
            found |= linear_init(f"{name}_first", into, hidden, bias=bias)
            found |= linear_init(f"{name}_middle", hidden, hidden, bias=bias)
            found |= linear_init(f"{name}_last", hidden, 1, bias=bias)
        return found


def _tuples(value: Any) -> Any:
    """The same with tuples for lists, all the way down: JSON knows no tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class MixedGatedModel(Model[MixedGated]):
    """characters (batch, 90), numbers (batch, 8) → answer (batch, 1).

    >>> model = MixedGatedModel(compared=((((0, 2),),), (((1, 2),),)), characters=3)
    >>> model(torch.tensor([[7, 8, 7]]), torch.tensor([[0.5, 1.5]])).shape
    torch.Size([1, 1])
    """

    describes = MixedGated

    def __init__(
        self,
        *,
        compared: Compared,
        decides: Pair = (0, 0),
        characters: int = 90,
        hidden_dim: int = 32,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            compared: for every number and every place of its label, the pairs of characters that are compared.
            decides: two characters; where they are equal, values are joined in another way.
            characters: how many characters an input has.
            hidden_dim: width of both MLPs.
            generator: where first weights are drawn from; None is PyTorch's global one.
        """
        described = MixedGated(compared=compared, decides=decides, characters=characters, hidden_dim=hidden_dim)
        super().__init__(described, generator)

    def build(self, architecture: MixedGated) -> None:
        for name, first in architecture.parameters().items():
            if name.endswith("_weight"):
                into, out = first.shape
                bias = name.replace("_weight", "_bias") in architecture.parameters()
                setattr(self, name.removesuffix("_weight"), nn.Linear(into, out, bias=bias))
        self.gates, self.answer = nn.Identity(), nn.Identity()

    def parts(self) -> list[tuple[str, str | None]]:
        return [("gates", None), ("answer", None)]

    def check(self, *inputs: Tensor) -> None:
        super().check(*inputs)
        characters, numbers = inputs
        check_prompts(characters, numbers, length=self.architecture.characters, count=self.architecture.numbers)

    def forward(
        self, characters: Int[Tensor, "batch characters"], numbers: Float[Tensor, "batch numbers"]
    ) -> Float[Tensor, "batch 1"]:
        self.check(characters, numbers)
        pairs = torch.tensor(self.architecture.compared, device=characters.device)
        equal = (characters[:, pairs[..., 0]] == characters[:, pairs[..., 1]]).to(numbers.dtype)
        gates = self.gates(self._mlp("gate", equal).squeeze(-1).sum(2))  # over the places
        left, right = self.architecture.decides
        way = (characters[:, [left]] == characters[:, [right]]).to(numbers.dtype)
        return self.answer(self._joined(gates * numbers, gates, way.unsqueeze(-1)))

    def _joined(
        self, values: Float[Tensor, "batch numbers"], gates: Float[Tensor, "batch numbers"], way: Tensor
    ) -> Float[Tensor, "batch 1"]:
        """What is left of the values, two by two; one without a partner meets a 0 that was not let through."""
        while values.shape[1] > 1:
            odd = values.shape[1] % 2
            (a, b), (p, q) = (
                nn.functional.pad(each, (0, odd)).unflatten(1, (-1, 2)).unbind(2) for each in (values, gates)
            )
            seen = torch.stack([a * q, b * p], dim=-1)
            values = a + b + self._mlp("join", torch.cat([seen * (1 - way), seen * way], dim=-1)).squeeze(-1)
            gates = p + q - p * q
        return values

    def _mlp(self, name: str, seen: Tensor) -> Tensor:
        first, middle, last = (self.get_submodule(f"{name}_{part}") for part in ("first", "middle", "last"))
        return last(middle(first(seen).relu()).relu())
