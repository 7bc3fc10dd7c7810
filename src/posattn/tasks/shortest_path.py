"""Shortest paths on a path graph whose nodes are shuffled: matrix in, matrix out."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.errors import require
from posattn.tasks.base import Shape, Task, check_numbers, drawing_device
from posattn.tasks.intervals import sample_numbers
from posattn.tasks.numeric import ACCURACY_TOLERANCE


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

    def shape(self, length: int) -> Shape:
        require(length >= 2, f"length={length}: a path needs at least two nodes.")
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
        require(
            not (integers and low <= 0 < high),
            f"low={low}, high={high}: integers from low … high − 1 include 0, and an edge of weight 0 cannot be told "
            f"from no edge. Draw them from low=1 on.",
        )
        weights = sample_numbers(
            count, nodes - 1, low=low, high=high, avoid=avoid, integers=integers, generator=generator, dtype=dtype
        )
        place = torch.rand(count, nodes, generator=generator, device=where).argsort(-1)  # node -> place on the path
        pair = _pair(place)
        x = torch.diag_embed(weights, 1).flatten(1).gather(1, pair)
        y = _distances(weights.double()).to(dtype).flatten(1).gather(1, pair)
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
        return (prediction - target)[..., *_upper(target)].square().mean(dim=(-2, -1))

    def metric(
        self,
        prediction: Float[Tensor, "*replicas batch nodes nodes"],
        target: Float[Tensor, "*replicas batch nodes nodes"],
    ) -> Float[Tensor, "*replicas"]:
        """The share of samples whose scored distances are all within rtol = atol = 0.1."""
        near = (prediction - target).abs() <= ACCURACY_TOLERANCE * (1 + target.abs())
        return near[..., *_upper(target)].all(dim=-1).to(prediction.dtype).mean(dim=-1)

    def example(self) -> str:
        x = torch.diag_embed(torch.tensor([[3.0, 1.0]]), 1)
        y = self.target(x + x.mT)
        return f"0 –3– 1 –1– 2 → d(0, 2) = {y[0, 0, 2].item():g}"


def _distances(weights: Tensor) -> Tensor:
    """d(i, j) = w_i + … + w_{j−1} for i ≤ j along the path, 0 below the diagonal.

    Summed from i on, so that no two large sums are ever subtracted.
    """
    edges = weights.shape[-1]
    start = torch.arange(edges + 1, device=weights.device)[:, None]
    from_start = weights[:, None, :] * (torch.arange(edges, device=weights.device) >= start)
    return torch.nn.functional.pad(from_start.cumsum(-1), (1, 0))


def _upper(matrix: Tensor) -> tuple[Tensor, Tensor]:
    row, column = torch.triu_indices(matrix.shape[-1], matrix.shape[-1], 1, device=matrix.device)
    return row, column


def _pair(place: Tensor) -> Tensor:
    """For each two nodes, where the entry (earlier place, later place) is in a flattened matrix over places."""
    i, j = place[:, :, None], place[:, None, :]
    return (torch.minimum(i, j) * place.shape[-1] + torch.maximum(i, j)).flatten(1)
