"""Edit distance and dynamic time warping, from the costs at every cell of a square table.

Node (i, j) of n × n stands at row i·n + j and holds three numbers: the cost c of a step on both sequences, from
(i − 1, j − 1); `up`, of a step on the first alone, from (i − 1, j); and `left`, of a step on the second alone, from
(i, j − 1). The answer is the cost of the cheapest way to the cell,

    D[0, 0] = c[0, 0],    D = min(D_diagonal + c, D_up + up, D_left + left),

where a neighbour outside the table is no candidate. That is all of it; the tasks differ in the costs they draw:

- Edit distance: cell (i, j) is for the first i symbols of one word and the first j of another, both of n − 1 symbols.
  Row and column 0 are the empty words, so the table has its borders inside: c[0, 0] = 0, D[i, 0] is the sum of `up`
  along the first column, and D[0, j] that of `left` along the first row. `up` depends on the row alone and `left` on
  the column: they are the costs of leaving out and of putting in that symbol.
- Warping: every way into a cell pays what matching there costs, (c, c, c), so D = c + min(D_diagonal, D_up, D_left).
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.checks import keep_switches, switch, whole
from posattn.errors import require
from posattn.tasks.base import FIXED, UNSCORED, Shape, check_described, check_numbers, drawing_device
from posattn.tasks.nodewise import NodewiseTask
from posattn.tasks.number_sampling import sample_uniform


@dataclass(frozen=True)
class AlignmentTask(NodewiseTask):
    """The cost of the cheapest way to every cell; with `gaps`, a step on one sequence has a cost of its own."""

    name: str
    summary: str
    gaps: bool = field(metadata=FIXED | UNSCORED)

    def __post_init__(self) -> None:
        check_described(self)
        keep_switches(self, "gaps")

    def shape(self, length: int) -> Shape:
        """What a model for tables of this length needs."""
        require(whole("length", length) >= 1, f"length={length}: a table has at least one cell.")
        return Shape(nodes=length**2, in_dim=3, out_dim=1)

    def sample(
        self,
        count: int,
        *,
        length: int = 6,
        low: float = 0.0,
        high: float = 2.0,
        blocks: bool = False,
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Float[Tensor, "count cells 3"], Float[Tensor, "count cells 1"]]:
        """iid uniform costs in [low, high]. `blocks` changes nothing: a cell is final when it is first reached."""
        drawing_device(count, generator, device)
        self.shape(length)
        switch("blocks", blocks)
        ends = {"low": low, "high": high}
        cost = sample_uniform(count, length, length, **ends, generator=generator, dtype=dtype)
        up = left = cost
        if self.gaps:
            cost[:, 0, 0] = 0
            gaps = sample_uniform(2, count, length, **ends, generator=generator, dtype=dtype)
            up, left = gaps[0].unsqueeze(2).expand_as(cost), gaps[1].unsqueeze(1).expand_as(cost)
        x = torch.stack([cost, up, left], dim=-1).flatten(1, 2)
        return x, _cheapest(x)

    def target(self, inputs: Float[Tensor, "batch cells 3"]) -> Float[Tensor, "batch cells 1"]:
        """Every cell's cheapest way, in float64, rounded once."""
        check_numbers(self.name, inputs, width=3)
        length = math.isqrt(inputs.shape[1])
        require(
            length**2 == inputs.shape[1],
            f"task '{self.name}': the input has {inputs.shape[1]} rows, and a table of n × n has n·n. Give it "
            f"{length**2} or {(length + 1) ** 2}.",
        )
        return _cheapest(inputs)

    def example(self) -> str:
        costs = [(0.0, 1.0, 1.0), (5.0, 1.0, 1.0), (5.0, 1.0, 1.0), (3.0, 1.0, 1.0)]
        if not self.gaps:
            costs = [(cost,) * 3 for cost in (1.0, 5.0, 2.0, 3.0)]
        y = self.target(torch.tensor([costs])).flatten().tolist()
        return f"{' / '.join(_shown(cell) for cell in costs)} → {_shown(y)}"


def _cheapest(x: Float[Tensor, "batch cells 3"]) -> Float[Tensor, "batch cells 1"]:
    """One antidiagonal after the other. Row and column 0 of the padded table are outside, at infinity."""
    length = math.isqrt(x.shape[1])
    cost, up, left = x.double().unflatten(1, (length, length)).unbind(-1)
    best = cost.new_full((len(x), length + 1, length + 1), math.inf)
    best[:, 1, 1] = cost[:, 0, 0]
    for step in range(1, 2 * length - 1):
        i = torch.arange(max(0, step - length + 1), min(step, length - 1) + 1, device=x.device)
        j = step - i
        on_one = torch.minimum(best[:, i, j + 1] + up[:, i, j], best[:, i + 1, j] + left[:, i, j])
        best[:, i + 1, j + 1] = torch.minimum(on_one, best[:, i, j] + cost[:, i, j])
    return best[:, 1:, 1:].flatten(1).unsqueeze(-1).to(x.dtype)


def _shown(numbers: tuple[float, ...] | list[float]) -> str:
    return " ".join(f"{number:g}" for number in numbers)


TASKS = (
    AlignmentTask("edit-distance", "cost of turning one prefix into another", gaps=True),
    AlignmentTask("warping", "cost of warping one prefix to another", gaps=False),
)
