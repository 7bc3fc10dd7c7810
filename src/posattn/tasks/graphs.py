"""Shortest paths, widest paths and reachability between all pairs of a directed graph's nodes."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.checks import choice, real
from posattn.errors import require
from posattn.tasks.number_sampling import checked_range
from posattn.tasks.pairs import GRAPHS, Drawn, PairTask, finite_in, sample_edges, sample_weights
from posattn.tasks.scoring import check_scored


@dataclass(frozen=True)
class AllPairsTask(PairTask):
    """The length of the shortest path from i to j. The diagonal is 0.

    An absent edge is one of a large finite weight. A potential u moves weights by u_i − u_j, and the answer in the
    same way: what u adds along a path depends on its ends alone.
    """

    name: str = "all-pairs"
    summary: str = "length of the shortest path, every pair"

    small = (0.0, 1.0, 9.0, 9.0, 0.0, 2.0, 1.0, 9.0, 0.0)

    @staticmethod
    def _along(first: Tensor, then: Tensor) -> Tensor:
        return first + then

    @staticmethod
    def _best(one: Tensor, other: Tensor) -> Tensor:
        return torch.minimum(one, other)

    def sample(
        self,
        count: int,
        *,
        nodes: int = 6,
        low: float = 0.0,
        high: float = 2.0,
        graph: str = "dense",
        absent: float | None = None,
        potential: float = 0.0,
        blocks: bool = False,
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Drawn:
        """iid uniform weights in [low, high], on the edges of a "dense" or "sparse" `graph` or of a "ring".

        Other pairs weigh `absent`, which is nodes · high unless said: more than any path. Every node has a potential,
        uniform in ±`potential`.
        """
        self._check_drawing(count, nodes, generator=generator, device=device, dtype=dtype)
        low, high = checked_range(low, high, dtype)
        require(
            low >= 0,
            f"low={low}: cycles of negative weight have no shortest path. Use low=0 or more, and potential=1.0 for "
            "negative edges.",
        )
        absent = nodes * high if absent is None else real("absent", absent)
        require(absent >= high, f"absent={absent}, high={high}: an absent edge weighs as much as any other. Use more.")
        potential = real("potential", potential)
        require(potential >= 0, f"potential={potential}: potentials are drawn from ± this. Use 0 or more.")
        finite_in(dtype, absent + 2 * potential, f"absent={absent}, potential={potential}: their sum")
        weights = sample_weights(
            count, nodes, low=low, high=high, absent=absent, diagonal=0.0, graph=graph, generator=generator, dtype=dtype
        )
        if potential > 0:
            moves = _potential_moves(count, nodes, potential, generator=generator, dtype=dtype)
            weights = (weights.double() + moves).to(dtype)
        return self._answered(weights, blocks=blocks)

    def _check(self, weights: Float[Tensor, "batch nodes nodes"], answer: Float[Tensor, "batch nodes nodes"]) -> None:
        staying = weights.diagonal(dim1=1, dim2=2)
        require(
            not staying.any(),
            f"task '{self.name}': the diagonal holds {staying.abs().max().item()}, it must be 0, as "
            "staying costs nothing.",
        )
        rounding = 4 * weights.shape[-1] * torch.finfo(weights.dtype).eps * weights.double().abs().max()
        least = (answer.double() + answer.double().mT).min()  # there and back
        require(
            bool(least >= -rounding),
            f"task '{self.name}': a cycle of weight {least.item():g} or less, and paths that take it again and again "
            "have no least length. Raise its weights.",
        )


@dataclass(frozen=True)
class WidestPathTask(PairTask):
    """The largest number such that a path from i to j has no smaller weight (max–min). The diagonal limits nothing."""

    name: str = "widest-path"
    summary: str = "smallest weight of the widest path, every pair"

    small = (9.0, 5.0, 1.0, 1.0, 9.0, 4.0, 2.0, 1.0, 9.0)

    @staticmethod
    def _along(first: Tensor, then: Tensor) -> Tensor:
        return torch.minimum(first, then)

    @staticmethod
    def _best(one: Tensor, other: Tensor) -> Tensor:
        return torch.maximum(one, other)

    def sample(
        self,
        count: int,
        *,
        nodes: int = 6,
        low: float = 0.0,
        high: float = 2.0,
        graph: str = "dense",
        absent: float | None = None,
        shift: float = 0.0,
        blocks: bool = False,
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Drawn:
        """iid uniform weights in [low, high], on the edges of a "dense" or "sparse" `graph` or of a "ring".

        Other pairs have `absent`, which is 2·low − high unless said, and the diagonal has 2·high − low: the width of
        the range below and above it. `shift` is added to all of them.
        """
        self._check_drawing(count, nodes, generator=generator, device=device, dtype=dtype)
        low, high = checked_range(low, high, dtype)
        absent = 2 * low - high if absent is None else real("absent", absent)
        require(absent <= low, f"absent={absent}, low={low}: an absent edge is no wider than any other. Use less.")
        shift = real("shift", shift)
        beyond = 2 * high - low
        largest = max(abs(absent), abs(beyond)) + abs(shift)
        finite_in(dtype, largest, f"low={low}, high={high}, absent={absent}, shift={shift}: their range")
        weights = sample_weights(
            count,
            nodes,
            low=low,
            high=high,
            absent=absent,
            diagonal=beyond,
            graph=graph,
            generator=generator,
            dtype=dtype,
        )
        weights = (weights.double() + shift).to(dtype)
        return self._answered(weights, blocks=blocks)

    def _check(self, weights: Float[Tensor, "batch nodes nodes"], answer: Float[Tensor, "batch nodes nodes"]) -> None:
        staying = weights.diagonal(dim1=1, dim2=2).amin(1)
        require(
            bool((staying >= weights.amax((1, 2))).all()),
            f"task '{self.name}': the diagonal holds {staying.min().item()}, less than an edge, and staying limits "
            "nothing. Put the largest number there.",
        )


@dataclass(frozen=True)
class ReachabilityTask(PairTask):
    """1 where a path leads from i to j, else 0. The diagonal is 1."""

    name: str = "reachability"
    summary: str = "whether there is a path, every pair"

    metric_name = "entry accuracy"
    small = (1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0)

    _along = staticmethod(WidestPathTask._along)
    _best = staticmethod(WidestPathTask._best)

    def sample(
        self,
        count: int,
        *,
        nodes: int = 6,
        graph: str = "sparse",
        degree: float = 1.5,
        blocks: bool = False,
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Drawn:
        """Each edge is there, as a 1, with a probability that depends on the `graph`; other pairs are 0.

        "sparse": degree/nodes; "dense": ½; "ring": 1 − 1/nodes from every node to the next, and to the first, else 0:
        long paths, of which one or another is cut.
        """
        self._check_drawing(count, nodes, generator=generator, device=device, dtype=dtype)
        require(real("degree", degree) >= 0, f"degree={degree}: so many edges leave a node. Use 0 or more.")
        share = {"sparse": degree / nodes, "dense": 0.5, "ring": 1 - 1 / nodes}[choice("graph", graph, GRAPHS)]
        edges = torch.rand(count, nodes, nodes, generator=generator, device=generator.device) < share
        if graph == "ring":
            edges &= sample_edges(count, nodes, graph=graph, generator=generator)
        edges.diagonal(dim1=1, dim2=2).fill_(True)
        weights = edges.to(dtype)
        return self._answered(weights, blocks=blocks)

    def _check(self, weights: Float[Tensor, "batch nodes nodes"], answer: Float[Tensor, "batch nodes nodes"]) -> None:
        other = weights[(weights != 0) & (weights != 1)].tolist()
        found = other[0] if other else "a 0 on the diagonal"
        require(
            not other and bool(weights.diagonal(dim1=1, dim2=2).all()),
            f"task '{self.name}': the input holds {found}: an edge is 1, no edge is 0, and the diagonal is 1.",
        )

    def metric(
        self,
        prediction: Float[Tensor, "*replicas batch pairs channels"],
        target: Float[Tensor, "*replicas batch pairs channels"],
    ) -> Float[Tensor, "*replicas"]:
        """The share of answers, the last channel, that lie on the right side of ½."""
        check_scored(self.name, prediction, target, axes=3)
        right = (prediction[..., -1] > 0.5) == (target[..., -1] > 0.5)
        return right.to(prediction.dtype).mean(dim=(-2, -1))


def _potential_moves(
    count: int, nodes: int, reach: float, *, generator: torch.Generator, dtype: torch.dtype
) -> Float[Tensor, "count nodes nodes"]:
    """u_i − u_j for uniform potentials in ±reach, in float64.

    They have so few digits that dtype holds the differences exactly. Rounding w + u_i − u_j, with w ≥ 0, then never
    leads below u_i − u_j, and these add up to 0 along a cycle: none becomes negative.
    """
    drawn = torch.rand(count, nodes, generator=generator, device=generator.device, dtype=torch.float64)
    held = torch.finfo(dtype)
    unit = held.eps * max(2.0 ** math.frexp(reach)[1], held.smallest_normal)
    potential = ((2 * drawn - 1) * (reach / unit)).trunc() * unit
    return potential.unsqueeze(2) - potential.unsqueeze(1)


TASKS = (AllPairsTask(), WidestPathTask(), ReachabilityTask())
