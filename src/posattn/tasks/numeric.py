"""Numeric tasks on a list of numbers: one number in and one number out at every node.

Back de Luca et al. 2025, "Positional Attention" (arXiv 2410.01686), section 7: cumulative sum, min, median and
maximum subarray sum, and sorting; min-sum is a generator of theirs without a published figure, max is min's twin.
Whole-median is the median of the whole list alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn.checks import choice, keep_switches, keep_whole, switch, whole
from posattn.errors import PosattnError, require
from posattn.tasks.base import FIXED, UNSCORED, Shape, check_described, check_numbers, drawing_device
from posattn.tasks.blocks import sorted_blocks, window_answers
from posattn.tasks.nodewise import NodewiseTask
from posattn.tasks.number_sampling import sample_numbers

ListFunction = Callable[[Float[Tensor, "*batch nodes"]], Float[Tensor, "*batch nodes"]]


#: Where numbers with places may stand.
PLACED = ("anywhere", "first")


class PlacedNumbers(NamedTuple):
    """Numbers, and where in a longer range each of them stands."""

    x: Float[Tensor, "batch nodes 1"]
    places: Int[Tensor, "batch nodes"]


@dataclass(frozen=True)
class NumericTask(NodewiseTask):
    """`function` of a list of numbers, one result per node. Functions that add do it in float64; targets round once."""

    name: str
    summary: str
    function: ListFunction = field(metadata=FIXED | UNSCORED)
    nodes_per_number: int = field(default=1, metadata=FIXED | UNSCORED)
    version: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_described(self)
        require(callable(self.function), f"function={self.function!r}: it must be a function of a tensor of numbers.")
        keep_whole(self, "nodes_per_number", least=1)

    def shape(self, length: int) -> Shape:
        """What a model for inputs of this length needs."""
        require(whole("length", length) >= 1, f"length={length}: an input has at least one number.")
        return Shape(nodes=self.nodes_per_number * length, in_dim=1, out_dim=1)

    def sample(
        self,
        count: int,
        *,
        length: int = 8,
        low: float = -2.0,
        high: float = 2.0,
        avoid: tuple[float, float] | None = None,
        integers: bool = False,
        places: int | None = None,
        placed: str = "anywhere",
        blocks: bool = False,
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Float[Tensor, "count nodes 1"] | PlacedNumbers, Float[Tensor, "count nodes channels"]]:
        """`count` lists of iid uniforms, each in a random sub-interval of [low, high] that is not inside `avoid`.

        With `places`, every list says where among so many its numbers stand, in ascending order: "anywhere", drawn anew
        for each list, or at the "first" ones. With `blocks`, the target has a channel for each iteration of a scan or
        of a sort by merging (`posattn.tasks.blocks`).
        """
        drawing_device(count, generator, device)
        nodes = self.shape(length).nodes
        numbers = sample_numbers(
            count, nodes, low=low, high=high, avoid=avoid, integers=integers, generator=generator, dtype=dtype
        )
        x = numbers.unsqueeze(-1)
        y = self._solve_blocks(x) if switch("blocks", blocks) else self._solve(x)
        choice("placed", placed, PLACED)
        if places is None:
            require(
                placed == PLACED[0], f"placed={placed!r}: without places there is nothing to choose. Pass places=32."
            )
            return x, y
        require(whole("places", places) >= nodes, f"places={places!r}: {nodes} numbers need as many places or more.")
        if placed == "first":
            stand = torch.arange(nodes, device=x.device).repeat(count, 1)
        else:  # the places of the largest of iid uniforms are a uniform subset
            drawn = torch.rand(count, places, generator=generator, device=x.device)
            stand = drawn.topk(nodes, dim=1).indices.sort(1).values
        return PlacedNumbers(x, stand), y

    def target(self, inputs: Float[Tensor, "batch nodes 1"] | PlacedNumbers) -> Float[Tensor, "batch nodes 1"]:
        inputs = inputs.x if isinstance(inputs, PlacedNumbers) else inputs
        check_numbers(self.name, inputs, width=1)
        require(
            inputs.shape[1] % self.nodes_per_number == 0,
            f"task '{self.name}': the input has {inputs.shape[1]} numbers, it needs a multiple of "
            f"{self.nodes_per_number}.",
        )
        return self._solve(inputs)

    def _solve(self, x: Float[Tensor, "batch nodes 1"]) -> Float[Tensor, "batch nodes 1"]:
        return self.function(x.squeeze(-1)).to(x.dtype).unsqueeze(-1)

    def _solve_blocks(self, x: Float[Tensor, "batch nodes 1"]) -> Float[Tensor, "batch nodes channels"]:
        """The answers on the way to the last one."""
        del x
        raise PosattnError(
            f"blocks=True: task '{self.name}' has no answers for parts of the list. Leave blocks out, or take sum, "
            "min, max, max-subarray or sort."
        )

    def example(self) -> str:
        numbers = [3.0, -1.0, 2.0, -4.0][: 4 // self.nodes_per_number * self.nodes_per_number]
        y = self.target(torch.tensor(numbers).reshape(1, -1, 1))
        return f"{_shown(numbers)} → {_shown(y.flatten().tolist())}"


@dataclass(frozen=True)
class PrefixTask(NumericTask):
    """`function` of every prefix, or with `cumulative=False` of the whole list (the last prefix) at every node."""

    cumulative: bool = field(default=True, metadata=UNSCORED)

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_switches(self, "cumulative")

    def _solve(self, x: Float[Tensor, "batch nodes 1"]) -> Float[Tensor, "batch nodes 1"]:
        y = super()._solve(x)
        return y if self.cumulative else y[:, -1:].expand_as(y).contiguous()


@dataclass(frozen=True)
class ScanTask(PrefixTask):
    """A prefix task whose answer for two runs of numbers follows from theirs, so that a scan computes it."""

    def _solve_blocks(self, x: Float[Tensor, "batch nodes 1"]) -> Float[Tensor, "batch nodes channels"]:
        require(
            self.cumulative,
            f"blocks=True: a scan of task '{self.name}' ends with the answer of each prefix, and cumulative=False asks "
            "for the whole list at every node. Use cumulative=True.",
        )
        return window_answers(x.squeeze(-1), self.function).to(x.dtype)


@dataclass(frozen=True)
class SortTask(NumericTask):
    """Sorting, on the way to which ever longer blocks are sorted."""

    def _solve_blocks(self, x: Float[Tensor, "batch nodes 1"]) -> Float[Tensor, "batch nodes channels"]:
        return sorted_blocks(x.squeeze(-1))


@dataclass(frozen=True)
class WholeMedianTask(NumericTask):
    """The median of the whole list at every node: what a sort holds at its middle nodes."""

    def _solve_blocks(self, x: Float[Tensor, "batch nodes 1"]) -> Float[Tensor, "batch nodes channels"]:
        raise PosattnError(
            f"blocks=True: a model for task '{self.name}' sorts and reads its middle nodes. Train on sort, whose "
            "samples have blocks."
        )


def _shown(numbers: list[float]) -> str:
    return " ".join(f"{number:g}" for number in numbers)


def _cumulative_sum(x: Tensor) -> Tensor:
    return x.double().cumsum(-1)


def _cumulative_min(x: Tensor) -> Tensor:
    return x.cummin(-1).values


def _cumulative_max(x: Tensor) -> Tensor:
    return x.cummax(-1).values


def _cumulative_median(x: Tensor) -> Tensor:
    """The median of each prefix."""
    ends = range(1, x.shape[-1] + 1)
    return torch.stack([_middle(x[..., :end].sort(-1).values) for end in ends], dim=-1)


def _whole_median(x: Tensor) -> Tensor:
    return _middle(x.sort(-1).values).unsqueeze(-1).repeat_interleave(x.shape[-1], dim=-1)


def _middle(ordered: Tensor) -> Tensor:
    """The middle value; halfway between the two middle ones where their count is even."""
    count = ordered.shape[-1]
    lower, upper = ordered[..., (count - 1) // 2].double(), ordered[..., count // 2].double()
    # Halves are added, as a sum could overflow; a middle value alone is not halved, as a subnormal would round.
    return upper if count % 2 else 0.5 * lower + 0.5 * upper


def _sort(x: Tensor) -> Tensor:
    return x.sort(-1).values


def _cumulative_max_subarray(x: Tensor) -> Tensor:
    """Kadane: the best subarray ending here is this number plus the best one ending before it, if that is positive.

    Unlike differences of prefix sums this never subtracts two large sums.
    """
    first, *others = x.double().unbind(-1)
    best = ending = first
    bests = [best]
    for number in others:
        ending = number + ending.clamp(min=0)
        best = torch.maximum(best, ending)
        bests.append(best)
    return torch.stack(bests, dim=-1)


def _cumulative_min_sum(x: Tensor) -> Tensor:
    """With halves a and b of the input: the minimum of a_j + b_j over j ≤ i, at node i of both halves."""
    half = x.shape[-1] // 2
    best = (x[..., :half].double() + x[..., half:]).cummin(-1).values
    return torch.cat([best, best], dim=-1)


TASKS = (
    ScanTask("sum", "sum of each prefix", _cumulative_sum),
    ScanTask("min", "minimum of each prefix", _cumulative_min),
    ScanTask("max", "maximum of each prefix", _cumulative_max),
    PrefixTask("median", "median of each prefix", _cumulative_median),
    WholeMedianTask("whole-median", "median of the whole list", _whole_median),
    SortTask("sort", "all numbers in ascending order", _sort),
    ScanTask("max-subarray", "largest sum of a non-empty run, each prefix", _cumulative_max_subarray),
    PrefixTask("min-sum", "smallest a_j + b_j of each prefix of two halves", _cumulative_min_sum, nodes_per_number=2),
)
