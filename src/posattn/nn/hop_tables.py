"""Induction hops by tables: a hop is a scan in which the rightmost wins, and what a node does in it is learned.

Token 0 says how many hops; the others are letters. Every node knows what the hops so far find from it, `found`: a
number for every letter and one for “missing”. At first it is 1 for the own letter, at node 0 for “missing”. A node's
table T has such a row for every letter. In a hop,

    enter      T[a]  ←  tanh(MLP(left letter is a, node is 0)) · found
    join       T[a]  ←  T[a] + σ(MLP(Σ T[a], Σ R[a]))·(R[a] − T[a])
    look up    found ←  found + σ(MLP(asked))·(Σ_a tanh(MLP(own letter is a))·T[a] − found)

where R are the tables of the nodes at s, 2s, … heads·s to the left, one after another, with s = 1 in the first layer of
a hop, heads + 1 in the second, (heads + 1)² in the third, until all nodes are within reach. As many hops are asked as
token 0 says, of node 0 none. MLPs inside a tanh have no biases: nothing gives nothing. In the end

    logit of token b  =  MLP(found[b], node is 0, b is blank)                   found[b] = 0 for what cannot be found

All MLPs have one hidden layer and are shared by all letters, nodes and hops. So letters may be renamed at will: one
that was never seen is like any other. Who reads whom depends on positions alone. Schedule and tables are given; what
enters them, which entry wins, what is looked up and when, and what is answered, are learned.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posattn.checks import keep_whole, whole
from posattn.errors import PosattnError
from posattn.nn.architecture import Architecture
from posattn.nn.initial_weights import Init, linear_init
from posattn.nn.module import Model, values_known

#: Every MLP: how many numbers it sees, and whether it has biases. Without them, nothing gives nothing.
MLPS = {"enter": (2, False), "join": (2, True), "look": (1, False), "hop": (1, True), "answer": (3, True)}


@dataclass(frozen=True, kw_only=True)
class HopTables(Architecture):
    """How many letters there are, how many hops, how many nodes are read in a layer, and the width of all MLPs."""

    kind = "hop-tables"

    letters: int = 10
    hops: int = 3
    heads: int = 4
    hidden_dim: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole(self, "letters", "hops", "heads", "hidden_dim", least=1)

    @property
    def vocabulary(self) -> int:
        """Letters, 0 … hops, “missing” and the blank."""
        return self.letters + self.hops + 3

    def layers(self, nodes: int) -> int:
        """⌈log_(heads + 1) nodes⌉ for every hop, and one that tells nodes the letter to their left and the hops.

        >>> [HopTables(heads=heads).layers(99) for heads in (1, 3, 4, 9)]
        [22, 13, 10, 7]
        """
        return 1 + self.hops * len(list(_shifts(self.heads, whole("nodes", nodes, least=1))))

    def parameters(self) -> dict[str, Init]:
        found: dict[str, Init] = {}
        for name, (into, bias) in MLPS.items():
            found |= linear_init(f"{name}_first", into, self.hidden_dim, bias=bias)
            found |= linear_init(f"{name}_last", self.hidden_dim, 1, bias=bias)
        return found


class HopTablesModel(Model[HopTables]):
    """(batch, nodes) token ids → (batch, nodes, vocabulary) logits, at any length.

    >>> model = HopTablesModel(letters=3, hops=2, generator=torch.Generator().manual_seed(0))
    >>> model(torch.tensor([[4, 0, 1, 0, 2]])).shape  # token 4 asks for one hop
    torch.Size([1, 5, 8])
    """

    describes = HopTables

    def __init__(
        self,
        *,
        letters: int = 10,
        hops: int = 3,
        heads: int = 4,
        hidden_dim: int = 16,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the first weights.

        Args:
            letters: how many letters there are, the tokens 0 … letters − 1.
            hops: the most hops that can be asked for; tokens letters … letters + hops ask for 0 … hops.
            heads: how many nodes a node reads in a layer.
            hidden_dim: width of all MLPs.
            generator: where first weights are drawn from; None is PyTorch's global one.
        """
        super().__init__(HopTables(letters=letters, hops=hops, heads=heads, hidden_dim=hidden_dim), generator)

    def build(self, architecture: HopTables) -> None:
        for name, (into, bias) in MLPS.items():
            setattr(self, f"{name}_first", nn.Linear(into, architecture.hidden_dim, bias=bias))
            setattr(self, f"{name}_last", nn.Linear(architecture.hidden_dim, 1, bias=bias))
        self.found = nn.ModuleList(nn.Identity() for _ in range(architecture.hops))  # where hooks meet what is found
        self.answer = nn.Identity()

    def parts(self) -> list[tuple[str, str | None]]:
        return [*((f"found.{hop}", None) for hop in range(self.architecture.hops)), ("answer", None)]

    def check(self, *inputs: Tensor) -> None:
        super().check(*inputs)
        (tokens,), sizes = inputs, self.architecture
        if not (tokens.dim() == 2 and tokens.shape[1] >= 1 and tokens.dtype == torch.int64):
            raise PosattnError(
                f"tokens are {tuple(tokens.shape)}, {tokens.dtype}: the model takes (batch, at least 1), int64."
            )
        if values_known(tokens):
            for what, held, least, most in (
                ("token 0", tokens[:, 0], sizes.letters, sizes.letters + sizes.hops),
                ("a letter", tokens[:, 1:], 0, sizes.letters - 1),
            ):
                outside = held[(held < least) | (held > most)]
                if outside.numel():
                    raise PosattnError(
                        f"{what} is {outside[0].item()}: of {sizes.letters} letters and up to {sizes.hops} hops, token "
                        f"0 is {sizes.letters} plus the number of hops, and all others are 0 … {sizes.letters - 1}."
                    )

    def forward(self, tokens: Int[Tensor, "batch nodes"]) -> Float[Tensor, "batch nodes vocabulary"]:
        self.check(tokens)
        sizes, nodes = self.architecture, tokens.shape[1]
        dtype, device = next(self.parameters()).dtype, tokens.device
        text = torch.arange(nodes, device=device) > 0
        held = (tokens.unsqueeze(-1) == torch.arange(sizes.letters, device=device)) & text.unsqueeze(-1)
        own = held.to(dtype)
        first = (~text).to(dtype).unsqueeze(-1).expand(tokens.shape[0], nodes, 1)
        entering = self._mlp("enter", torch.stack([_left(own, 1), first.expand_as(own)], dim=-1)).tanh()
        looked_up = self._mlp("look", own.unsqueeze(-1)).tanh()
        found = torch.cat([own, first], dim=-1)
        for hop, known in enumerate(self.found, start=1):
            table = entering * found.unsqueeze(2)
            for shift in _shifts(sizes.heads, nodes):
                table = self._joined(table, shift)
            asked = ((tokens[:, :1] >= sizes.letters + hop) & text).to(dtype).unsqueeze(-1)
            found = known(found + self._mlp("hop", asked).sigmoid() * ((looked_up * table).sum(2) - found))
        return self._answered(found, first)

    def _joined(
        self, table: Float[Tensor, "batch nodes letters values"], shift: int
    ) -> Float[Tensor, "batch nodes letters values"]:
        """A layer: the tables of so many nodes as all that are read know of; where there is no node, R is 0."""
        read = table
        for _ in range(self.architecture.heads):
            read = _left(read, shift)
            gate = self._mlp("join", torch.stack([table.sum(-1), read.sum(-1)], dim=-1)).sigmoid()
            table = table + gate * (read - table)
        return table

    def _answered(
        self, found: Float[Tensor, "batch nodes values"], first: Float[Tensor, "batch nodes 1"]
    ) -> Float[Tensor, "batch nodes vocabulary"]:
        never = torch.zeros_like(first)
        of_tokens = torch.cat(
            [found[..., :-1], *[never] * (self.architecture.hops + 1), found[..., -1:], never], dim=-1
        )
        last = torch.arange(of_tokens.shape[-1], device=first.device) == of_tokens.shape[-1] - 1
        blank = last.to(first.dtype).expand_as(of_tokens)
        return self.answer(
            self._mlp("answer", torch.stack([of_tokens, first.expand_as(of_tokens), blank], dim=-1)).squeeze(-1)
        )

    def _mlp(self, name: str, seen: Tensor) -> Tensor:
        first, last = (self.get_submodule(f"{name}_{part}") for part in ("first", "last"))
        return last(first(seen).relu())


def _shifts(heads: int, nodes: int) -> Iterator[int]:
    """Of every layer of a hop, how far apart the nodes are that it reads."""
    shift = 1
    while shift < nodes:
        yield shift
        shift *= heads + 1


def _left(x: Tensor, shift: int) -> Tensor:
    """What stands so many nodes to the left, 0 where there is no node."""
    padding = (0, 0) * (x.dim() - 2) + (shift, 0)
    return nn.functional.pad(x, padding)[:, : x.shape[1]]
