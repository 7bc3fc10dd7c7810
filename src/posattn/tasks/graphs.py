"""Shortest paths, widest paths and reachability between all pairs of a directed graph's nodes."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.checks import real, switch
from posattn.errors import require
from posattn.tasks.base import check_dtype, drawing_device
from posattn.tasks.number_sampling import checked_range, sample_uniform
from posattn.tasks.pairs import PairTask, finite_in, sample_edges
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
    ) -> tuple[Float[Tensor, "count pairs 1"], Float[Tensor, "count pairs channels"]]:
        """iid uniform weights in [low, high], on the edges of a "dense" or "sparse" `graph` or of a "ring".

        Other pairs weigh `absent`, which is nodes · high unless said: more than any path. Every node has a potential,
        uniform in ±`potential`, to a multiple of a power of two.
        """
        where = drawing_device(count, generator, device)
        self.shape(nodes)
        check_dtype(dtype)
        low, high = checked_range(low, high, dtype)
        require(
            low >= 0,
            f"low={low}: cycles of negative weight have no shortest path. Use low=0 or more, and potential=1.0 for "
            "negative edges.",
        )
        absent = nodes * high if absent is None else real("absent", absent)
        require(absent >= high, f"absent={absent}, high={high}: an absent edge weighs at least as much as any other.")
        reach = abs(real("potential", potential))
        require(potential >= 0, f"potential={potential}: potentials are drawn from ± this. Use 0 or more.")
        finite_in(dtype, absent + 2 * reach, f"absent={absent}, potential={potential}: their sum")
        edges = sample_edges(count, nodes, graph=graph, generator=generator)
        drawn = sample_uniform(count, nodes, nodes, low=low, high=high, generator=generator, dtype=dtype)
        weights = torch.where(edges, drawn, absent)
        if potential > 0:
            weights = _moved(weights, _potentials(count, nodes, reach, generator=generator))
        weights = weights.masked_fill(torch.eye(nodes, dtype=torch.bool, device=where), 0.0)
        return weights.flatten(1).unsqueeze(-1), self._solve(weights, blocks=switch("blocks", blocks))

    def _check(self, weights: Float[Tensor, "batch nodes nodes"], answer: Float[Tensor, "batch nodes nodes"]) -> None:
        staying = weights.diagonal(dim1=1, dim2=2)
        require(
            not staying.any(),
            f"task '{self.name}': the diagonal holds {staying.abs().max().item()}, it must be 0: nobody pays for "
            "staying.",
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
    ) -> tuple[Float[Tensor, "count pairs 1"], Float[Tensor, "count pairs channels"]]:
        """iid uniform weights in [low, high], on the edges of a "dense" or "sparse" `graph` or of a "ring".

        Other pairs have `absent`, which is 2·low − high unless said, and the diagonal has 2·high − low: the width of
        the range below and above it. `shift` is added to all of them.
        """
        where = drawing_device(count, generator, device)
        self.shape(nodes)
        check_dtype(dtype)
        low, high = checked_range(low, high, dtype)
        absent = 2 * low - high if absent is None else real("absent", absent)
        require(absent <= low, f"absent={absent}, low={low}: an absent edge is no wider than any other. Use less.")
        shift = real("shift", shift)
        largest = max(abs(absent), abs(2 * high - low)) + abs(shift)
        finite_in(dtype, largest, f"low={low}, high={high}, absent={absent}, shift={shift}: their range")
        edges = sample_edges(count, nodes, graph=graph, generator=generator)
        drawn = sample_uniform(count, nodes, nodes, low=low, high=high, generator=generator, dtype=dtype)
        weights = torch.where(edges, drawn, absent)
        weights = weights.masked_fill(torch.eye(nodes, dtype=torch.bool, device=where), 2 * high - low)
        weights = (weights.double() + shift).to(dtype)
        return weights.flatten(1).unsqueeze(-1), self._solve(weights, blocks=switch("blocks", blocks))

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
        degree: float = 1.5,
        blocks: bool = False,
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Float[Tensor, "count pairs 1"], Float[Tensor, "count pairs channels"]]:
        """Each edge is there, as a 1, with probability degree/nodes; other pairs are 0."""
        where = drawing_device(count, generator, device)
        self.shape(nodes)
        check_dtype(dtype)
        require(real("degree", degree) >= 0, f"degree={degree}: so many edges leave a node. Use 0 or more.")
        drawn = torch.rand(count, nodes, nodes, generator=generator, device=where) < degree / nodes
        weights = (drawn | torch.eye(nodes, dtype=torch.bool, device=where)).to(dtype)
        return weights.flatten(1).unsqueeze(-1), self._solve(weights, blocks=switch("blocks", blocks))

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


def _potentials(count: int, nodes: int, reach: float, *, generator: torch.Generator) -> Float[Tensor, "count nodes"]:
    """Uniforms in ±reach, in float64, with so few digits that their differences are exact."""
    drawn = torch.rand(count, nodes, generator=generator, device=generator.device, dtype=torch.float64)
    unit = 2.0 ** (math.frexp(reach)[1] - 40)
    return ((2 * drawn - 1) * (reach / unit)).trunc() * unit


def _moved(
    weights: Float[Tensor, "count nodes nodes"], potential: Float[Tensor, "count nodes"]
) -> Float[Tensor, "count nodes nodes"]:
    """w_ij + u_i − u_j, rounded up, so that no cycle comes to weigh less than it did and none becomes negative."""
    held, moves = weights.double(), potential.unsqueeze(2) - potential.unsqueeze(1)
    total = held + moves
    kept = total - held
    lost = (held - (total - kept)) + (moves - kept)  # what the addition rounded off (Knuth's two-sum)
    infinity = torch.full_like(total, math.inf)
    total = torch.where(lost > 0, total.nextafter(infinity), total)
    rounded = total.to(weights.dtype)
    return torch.where(rounded < total, rounded.nextafter(infinity.to(weights.dtype)), rounded)


TASKS = (AllPairsTask(), WidestPathTask(), ReachabilityTask())
