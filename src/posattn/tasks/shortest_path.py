"""Shortest paths on a path graph whose nodes are shuffled: matrix in, matrix out."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.checks import number, switch, whole
from posattn.errors import require
from posattn.tasks.base import Shape, Task, check_described, check_numbers, drawing_device
from posattn.tasks.number_sampling import sample_numbers
from posattn.tasks.scoring import ACCURACY_TOLERANCE, check_scored


@dataclass(frozen=True)
class ShortestPathTask(Task):
    """Distances between all pairs of nodes of a weighted path.

    Input row i holds the weights of node i's edges (0: no edge), target row i its distances. The path visits the
    nodes in random order. Only the upper triangle is scored: the rest says the same again. Between two nodes of a
    path there is one way, so negative weights are fine.
    """

    name: str = "shortest-path"
    summary: str = "distance of every pair on a weighted path"

    metric_name = "accuracy"

    def __post_init__(self) -> None:
        check_described(self)

    def shape(self, length: int) -> Shape:
        require(whole("length", length) >= 2, f"length={length}: a path needs at least two nodes.")
        return Shape(nodes=length, in_dim=length, out_dim=length)

    def sample(
        self,
        count: int,
        *,
        length: int = 8,
        low: float = 0.0,
        high: float = 2.0,
        avoid: tuple[float, float] | None = None,
        integers: bool = False,
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Float[Tensor, "count nodes nodes"], Float[Tensor, "count nodes nodes"]]:
        where = drawing_device(count, generator, device)
        nodes = self.shape(length).nodes
        low, high = number("low", low), number("high", high)
        require(
            not (switch("integers", integers) and low <= 0 < high),
            f"low={low}, high={high}: integers from low … high − 1 include 0, and an edge of weight 0 cannot be told "
            f"from no edge. Draw them from low=1 on.",
        )
        weights = sample_numbers(
            count, nodes - 1, low=low, high=high, avoid=avoid, integers=integers, generator=generator, dtype=dtype
        )
        order = torch.rand(count, nodes, generator=generator, device=where).argsort(-1)  # place on the path -> node
        above, below = _pairs(order)
        edges = slice(nodes - 1)  # _distances begins with the edges
        distances = _distances(weights)
        x, y = weights.new_zeros(count, nodes**2), weights.new_zeros(count, nodes**2)
        x.scatter_(1, above[:, edges], weights).scatter_(1, below[:, edges], weights)
        y.scatter_(1, above, distances).scatter_(1, below, distances)
        return x.unflatten(1, (nodes, nodes)), y.unflatten(1, (nodes, nodes))

    def target(self, inputs: Float[Tensor, "batch nodes nodes"]) -> Float[Tensor, "batch nodes nodes"]:
        """Walk outwards from every node at once: n − 2 steps, each along the one edge that leads on.

        An edge is a non-zero weight, so an edge of weight 0 cannot be told from no edge: such an input is refused.
        """
        check_numbers(self.name, inputs, width=None)
        nodes = inputs.shape[-1]
        edges = inputs != 0
        require(
            inputs.shape[1] == nodes
            and bool((inputs == inputs.mT).all())
            and bool((edges.sum(dim=(1, 2)) == 2 * (nodes - 1)).all())
            and bool((edges.sum(dim=2) <= 2).all())
            and not bool(edges.diagonal(dim1=1, dim2=2).any()),
            f"task '{self.name}': every input must be the symmetric weight matrix of a path with {nodes} nodes "
            "and no edge of weight 0.",
        )
        distance = inputs.double()
        reached = edges | torch.eye(nodes, dtype=torch.bool, device=inputs.device)
        for _ in range(nodes - 2):
            # A node not yet reached has at most one reached neighbour, the one before it on the path.
            via = reached.double() @ edges.double()
            new = (via > 0) & ~reached
            onward = distance @ edges.double() + reached.double() @ inputs.double()
            distance = torch.where(new, onward, distance)
            reached = reached | new
        require(bool(reached.all()), f"task '{self.name}': an input's nodes do not lie on one path.")
        return distance.to(inputs.dtype)

    def loss(
        self,
        prediction: Float[Tensor, "*replicas batch nodes nodes"],
        target: Float[Tensor, "*replicas batch nodes nodes"],
    ) -> Float[Tensor, "*replicas"]:
        """Mean squared error over samples and the upper triangle."""
        check_scored(self.name, prediction, target, axes=3)
        return (prediction - target)[..., *_upper(target)].square().mean(dim=(-2, -1))

    def metric(
        self,
        prediction: Float[Tensor, "*replicas batch nodes nodes"],
        target: Float[Tensor, "*replicas batch nodes nodes"],
    ) -> Float[Tensor, "*replicas"]:
        """The share of samples whose scored distances are all within rtol = atol = 0.1."""
        check_scored(self.name, prediction, target, axes=3)
        near = (prediction - target).abs() <= ACCURACY_TOLERANCE * (1 + target.abs())
        return near[..., *_upper(target)].all(dim=-1).to(prediction.dtype).mean(dim=-1)

    def example(self) -> str:
        x = torch.diag_embed(torch.tensor([[3.0, 1.0]]), 1)
        y = self.target(x + x.mT)
        return f"0 –3– 1 –1– 2 → d(0, 2) = {y[0, 0, 2].item():g}"


def _distances(weights: Float[Tensor, "count edges"]) -> Float[Tensor, "count pairs"]:
    """w_s + … + w_{s+k−1}, the distance of places s and s + k: all s for k = 1, then all for k = 2, and so on.

    Summed from s on in float64, so that no two large sums are ever subtracted, and rounded once.
    """
    exact = total = weights.double()
    rounded = [weights]
    for span in range(1, weights.shape[-1]):
        total = total[:, :-1] + exact[:, span:]
        rounded.append(total.to(weights.dtype))
    return torch.cat(rounded, dim=1)


def _pairs(order: Int[Tensor, "count nodes"]) -> tuple[Int[Tensor, "count pairs"], Int[Tensor, "count pairs"]]:
    """Where a flattened matrix holds each pair of `_distances`, and where its transpose does."""
    count, nodes = order.shape
    start = torch.cat([torch.arange(nodes - span, device=order.device) for span in range(1, nodes)])
    end = torch.cat([torch.arange(span, nodes, device=order.device) for span in range(1, nodes)])
    first, last = order.gather(1, start.expand(count, -1)), order.gather(1, end.expand(count, -1))
    return torch.add(last, first, alpha=nodes), torch.add(first, last, alpha=nodes)


def _upper(matrix: Tensor) -> tuple[Tensor, Tensor]:
    row, column = torch.triu_indices(matrix.shape[-1], matrix.shape[-1], 1, device=matrix.device)
    return row, column


TASKS = (ShortestPathTask(),)
