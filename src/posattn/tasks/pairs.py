"""What tasks on the pairs of a graph's nodes share: the number of pair (i, j) of n nodes stands at row i·n + j.

Inputs are the weights of edges, from i to j. The answer is their closure, the best of all paths from i to j; the
diagonal is the path that stays and is left as it is.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posattn.checks import choice, switch, tensor, whole
from posattn.errors import PosattnError, require
from posattn.tasks.base import Shape, check_described, check_dtype, check_numbers, drawing_device
from posattn.tasks.nodewise import NodewiseTask
from posattn.tasks.number_sampling import sample_uniform

#: Which edges there are: all; each with probability 4/n, and the ring; from every node to the next, and to the first.
GRAPHS = ("dense", "sparse", "ring")
#: How many edges leave a node of a sparse graph, on average, besides that of the ring.
SPARSE_DEGREE = 4
#: What a pair task's samples are: the numbers of all pairs, and their answers.
Drawn = tuple[Float[Tensor, "count pairs 1"], Float[Tensor, "count pairs channels"]]


class PairTask(NodewiseTask):
    """The closure of a graph's weights, by `_along` a path and the `_best` of two paths.

    With `blocks=True` channel k, of as many as there are nodes, has the answers of the graph of nodes 0 … k alone, and
    NaN for pairs that are not in it.
    """

    #: Weights of a graph of three nodes.
    small: tuple[float, ...]

    def __post_init__(self) -> None:
        check_described(self)

    @staticmethod
    @abstractmethod
    def _along(first: Tensor, then: Tensor) -> Tensor:
        """A path's number, from those of its two parts."""

    @staticmethod
    @abstractmethod
    def _best(one: Tensor, other: Tensor) -> Tensor:
        """The better of two paths' numbers."""

    @abstractmethod
    def _check(self, weights: Float[Tensor, "batch nodes nodes"], answer: Float[Tensor, "batch nodes nodes"]) -> None:
        """Refuse weights that the answer is not defined for."""

    def shape(self, nodes: int) -> Shape:
        """What a model for graphs of so many nodes needs."""
        require(whole("nodes", nodes) >= 1, f"nodes={nodes}: a graph has at least one node.")
        return Shape(nodes=nodes**2, in_dim=1, out_dim=1)

    def target(self, inputs: Float[Tensor, "batch pairs 1"]) -> Float[Tensor, "batch pairs 1"]:
        """Every pair's best path, in float64, rounded once."""
        self._refuse_infinite(inputs)
        check_numbers(self.name, inputs, width=1)
        nodes = math.isqrt(inputs.shape[1])
        require(
            nodes**2 == inputs.shape[1],
            f"task '{self.name}': the input has {inputs.shape[1]} rows, and the pairs of n nodes are n·n. Give it "
            f"{nodes**2} or {(nodes + 1) ** 2}.",
        )
        weights = inputs.unflatten(1, (nodes, nodes)).squeeze(-1)
        answer = self._solve(weights)
        self._check(weights, answer.unflatten(1, (nodes, nodes)).squeeze(-1))
        return answer

    def _check_drawing(
        self,
        count: int,
        nodes: int,
        *,
        generator: torch.Generator,
        device: str | torch.device | None,
        dtype: torch.dtype,
    ) -> None:
        drawing_device(count, generator, device)
        self.shape(nodes)
        check_dtype(dtype)

    def _answered(self, weights: Float[Tensor, "count nodes nodes"], *, blocks: bool) -> Drawn:
        return weights.flatten(1).unsqueeze(-1), self._solve(weights, blocks=switch("blocks", blocks))

    def _refuse_infinite(self, inputs: Tensor) -> None:
        infinite = tensor(f"task '{self.name}': the input", inputs).isinf()
        if infinite.any():
            at = infinite.nonzero()[0].tolist()
            raise PosattnError(
                f"task '{self.name}': an infinite edge, {inputs[tuple(at)].item()} at {at}. Use a large finite number."
            )

    def _solve(
        self, weights: Float[Tensor, "batch nodes nodes"], *, blocks: bool = False
    ) -> Float[Tensor, "batch pairs channels"]:
        """The answers, or with `blocks` those of each graph of the first nodes."""
        parts: list[Tensor] = []
        closed = weights
        for last, closed in enumerate(self._closures(weights.double())):
            if blocks:
                part = torch.full_like(closed, math.nan)
                part[:, : last + 1, : last + 1] = closed[:, : last + 1, : last + 1]
                parts.append(part)
        return torch.stack(parts or [closed], dim=-1).flatten(1, 2).to(weights.dtype)

    def _closures(self, state: Float[Tensor, "batch nodes nodes"]) -> Iterator[Float[Tensor, "batch nodes nodes"]]:
        """Floyd–Warshall: after step k the best paths whose inner nodes are among 0 … k.

        Where i and j are among them as well, that is the closure of the graph of nodes 0 … k.
        """
        stays = state.diagonal(dim1=1, dim2=2)
        for via in range(state.shape[-1]):
            state = self._best(state, self._along(state[:, :, via, None], state[:, None, via, :]))
            state.diagonal(dim1=1, dim2=2).copy_(stays)
            yield state

    def example(self) -> str:
        y = self.target(torch.tensor(self.small).reshape(1, 9, 1))
        return f"{_rows(self.small)} → {_rows(y.flatten().tolist())}"


def sample_edges(
    count: int, nodes: int, *, graph: str, generator: torch.Generator
) -> Bool[Tensor, "count nodes nodes"]:
    """Which pairs have an edge, of every graph; what the diagonal says is of no account."""
    choice("graph", graph, GRAPHS)
    every = torch.ones(count, nodes, nodes, dtype=torch.bool, device=generator.device)
    if graph == "dense":
        return every
    node = torch.arange(nodes, device=generator.device)
    ring = (node == (node.unsqueeze(1) + 1) % nodes) & every
    if graph == "ring":
        return ring
    return ring | (torch.rand(every.shape, generator=generator, device=generator.device) < SPARSE_DEGREE / nodes)


def sample_weights(
    count: int,
    nodes: int,
    *,
    low: float,
    high: float,
    absent: float,
    diagonal: float,
    graph: str,
    generator: torch.Generator,
    dtype: torch.dtype,
) -> Float[Tensor, "count nodes nodes"]:
    """iid uniform weights on the edges of a graph, `absent` where there is none."""
    edges = sample_edges(count, nodes, graph=graph, generator=generator)
    drawn = sample_uniform(count, nodes, nodes, low=low, high=high, generator=generator, dtype=dtype)
    weights = torch.where(edges, drawn, absent)
    weights.diagonal(dim1=1, dim2=2).fill_(diagonal)
    return weights


def finite_in(dtype: torch.dtype, largest: float, message: str) -> None:
    """Refuse numbers that overflow."""
    require(math.isfinite(torch.tensor(largest, dtype=dtype).item()), f"{message} overflows in {dtype}: use less.")


def _rows(numbers: tuple[float, ...] | list[float]) -> str:
    shown = [f"{number:g}" for number in numbers]
    return " / ".join(" ".join(shown[start : start + 3]) for start in range(0, len(shown), 3))
