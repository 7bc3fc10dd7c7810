"""Which numbers a step of a looped model reads in each iteration: index arithmetic, never a matrix of nodes × nodes.

    scan       node i reads i − 2^ℓ; nodes without a partner keep what they have (Hillis and Steele)
    bitonic    merge p compares i with i xor (2^p − 1), then with i xor 2^j for j = p − 2 … 0; a partner beyond the
               input is absent, and the node keeps its number, which equals padding by +∞
    pairs      node (i, j) of a graph reads (i, k) and (k, j) in iteration k (Floyd and Warshall)
    grid       node (i, j) of a table reads its neighbours above, to the left and across, one diagonal after the other

A step takes numbers of shape (batch, m, values, width) and a role for each of its m nodes, or one for all, and gives
(batch, m, width). Steps with several candidates are chains of steps that compare two.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import ClassVar

import torch
from torch import Tensor

from posattn.errors import require
from posattn.nn.symmetry import Action, nothing, shift

#: (numbers, kind of step, role of each node) → the numbers that they become.
Step = Callable[[Tensor, int, Tensor | int], Tensor]


class Schedule(ABC):
    """How the nodes of an input of any length are wired, iteration by iteration."""

    name: ClassVar[str]
    in_dim: ClassVar[int] = 1
    #: Roles that a node can have in each kind of step.
    roles: ClassVar[tuple[int, ...]] = (1,)

    @abstractmethod
    def actions(self, translation: str | Action | None) -> tuple[Action, ...]:
        """How the numbers of each kind of step move, under a translation of the model."""

    @abstractmethod
    def check(self, length: int) -> None:
        """Refuse a length that no input has."""

    @abstractmethod
    def iterations(self, state: Tensor, x: Tensor, step: Step, kinds: int) -> Iterator[tuple[Tensor, bool]]:
        """The state (batch, length, width) after every iteration, and whether some blocks are complete then.

        `kinds`: how many kinds of step a chain has.
        """


def _two_way(translation: str | Action | None, schedule: str) -> Action:
    """The action on a node's own number and its partner's."""
    if isinstance(translation, Action):
        require(
            translation.values == 2,
            f"the action has rows for {translation.values} numbers: a step of '{schedule}' reads 2, and one row is the "
            "answer's.",
        )
        return translation
    require(
        translation != "potential",
        f"symmetry='potential' with schedule='{schedule}': it is about pairs (i, j). Use 'shift', or schedule='pairs'.",
    )
    return nothing(2) if translation is None else shift(2)


class Scan(Schedule):
    """Node i reads node i − 2^ℓ."""

    name = "scan"

    def actions(self, translation: str | Action | None) -> tuple[Action, ...]:
        return (_two_way(translation, self.name),)

    def check(self, length: int) -> None:
        pass

    def reads(self, length: int) -> list[tuple[Tensor, Tensor]]:
        """For every iteration: whom each node reads (itself where there is nobody), and its role."""
        node = torch.arange(length)
        found = []
        for level in range(max(0, length - 1).bit_length()):
            partner = node - (1 << level)
            found.append((torch.where(partner < 0, node, partner), torch.zeros_like(node)))
        return found

    def iterations(self, state: Tensor, x: Tensor, step: Step, kinds: int) -> Iterator[tuple[Tensor, bool]]:
        length = state.shape[1]
        for level in range(max(0, length - 1).bit_length()):
            apart = 1 << level
            values = torch.stack([state[:, apart:], state[:, :-apart]], dim=2)
            state = torch.cat([state[:, :apart], step(values, 0, 0)], dim=1)
            yield state, True


class Bitonic(Schedule):
    """Compare and exchange; the lower index has role 0, the upper one role 1."""

    name = "bitonic"
    roles = (2,)

    def actions(self, translation: str | Action | None) -> tuple[Action, ...]:
        return (_two_way(translation, self.name),)

    def check(self, length: int) -> None:
        pass

    def masks(self, length: int) -> list[tuple[int, bool]]:
        """i xor which mask node i reads in every iteration, and whether that ends a merge."""
        found = []
        for merge in range(1, max(0, length - 1).bit_length() + 1):
            masks = [(1 << merge) - 1, *(1 << bit for bit in range(merge - 2, -1, -1))]
            found += [(mask, last == len(masks)) for last, mask in enumerate(masks, 1)]
        return found

    def reads(self, length: int) -> list[tuple[Tensor, Tensor]]:
        """For every iteration: whom each node reads (itself where there is nobody), and its role."""
        node = torch.arange(length)
        partners = [node ^ mask for mask, _ in self.masks(length)]
        return [(torch.where(p < length, p, node), (p < node).long()) for p in partners]

    def iterations(self, state: Tensor, x: Tensor, step: Step, kinds: int) -> Iterator[tuple[Tensor, bool]]:
        length = state.shape[1]
        node = torch.arange(length, device=state.device)
        for mask, complete in self.masks(length):
            partner = node ^ mask
            there = partner < length
            values = torch.stack([state, state[:, torch.where(there, partner, node)]], dim=2)
            moved = step(values, 0, (partner < node).long())
            state = moved if not length & (length - 1) else torch.where(there[:, None], moved, state)
            yield state, complete


class Pairs(Schedule):
    """Node (i, j) reads (i, k) and (k, j): all three in one step, or, where only a shift is known, two by two."""

    name = "pairs"
    roles = (1, 1)

    def actions(self, translation: str | Action | None) -> tuple[Action, ...]:
        if translation == "potential":  # D_ij moves by u_i − u_j
            rows = ((1, 0, -1), (1, -1, 0), (0, 1, -1), (1, 0, -1))
            return (Action(tuple(tuple(map(Fraction, row)) for row in rows)),)
        if translation == "shift":
            return shift(2), shift(2)
        if translation is None:
            return (nothing(3),)
        assert isinstance(translation, Action)
        require(
            translation.values == 3,
            f"the action has rows for {translation.values} numbers: a step of 'pairs' reads 3, and one row is the "
            "answer's.",
        )
        return (translation,)

    def check(self, length: int) -> None:
        side = math.isqrt(length)
        require(
            side * side == length, f"the input has {length} numbers: 'pairs' takes n·n, one for each pair of nodes."
        )

    def iterations(self, state: Tensor, x: Tensor, step: Step, kinds: int) -> Iterator[tuple[Tensor, bool]]:
        batch, length, width = state.shape
        side = math.isqrt(length)
        for k in range(side):
            table = state.unflatten(1, (side, side))
            first = table[:, :, k : k + 1].expand(-1, -1, side, -1).reshape(batch, length, width)
            second = table[:, k : k + 1].expand(-1, side, -1, -1).reshape(batch, length, width)
            state = _joined(state, first, second, step) if kinds == 1 else _chained(state, first, second, step)
            yield state, True


def _joined(state: Tensor, first: Tensor, second: Tensor, step: Step) -> Tensor:
    return step(torch.stack([state, first, second], dim=2), 0, 0)


def _chained(state: Tensor, first: Tensor, second: Tensor, step: Step) -> Tensor:
    joined = step(torch.stack([first, second], dim=2), 0, 0)
    return step(torch.stack([state, joined], dim=2), 1, 0)


class Grid(Schedule):
    """Each input holds the cost of coming from across, from above and from the left; a node is the best of the three.

    The first node is its own cost. Nodes at the border have one candidate, and take it.
    """

    name = "grid"
    in_dim = 3
    roles = (1, 1)

    def actions(self, translation: str | Action | None) -> tuple[Action, ...]:
        require(
            translation in (None, "potential"),
            "schedule='grid' knows one translation, 'potential' (every node's number may move by its own amount, and "
            "costs with it): use ('scale', 'potential').",
        )
        if translation is None:
            return nothing(4), nothing(3)
        rows = ((1, 0, 0), (-1, 0, 1), (0, 1, 0), (0, -1, 1), (0, 0, 1))  # above, its cost, left, its cost → node
        then = ((0, 1), (1, 0), (-1, 1), (0, 1))  # best so far, across, its cost → node
        return tuple(Action(tuple(tuple(map(Fraction, row)) for row in table)) for table in (rows, then))

    def check(self, length: int) -> None:
        side = math.isqrt(length)
        require(side * side == length, f"the input has {length} nodes: 'grid' takes n·n, a square table.")

    def iterations(self, state: Tensor, x: Tensor, step: Step, kinds: int) -> Iterator[tuple[Tensor, bool]]:
        side = math.isqrt(x.shape[1])
        across, above, left = x.unbind(2)
        found = [across[:, :1]]  # a diagonal after the other, each from its first row to its last
        for diagonal in range(1, 2 * side - 1):
            before, start = found[-1], max(0, diagonal - side)  # the first row of the diagonal before
            inner = range(max(diagonal - side + 1, 1), min(diagonal, side))
            parts = []
            if diagonal < side:
                parts.append(before[:, :1] + left[:, diagonal : diagonal + 1])
            if inner:
                nodes = _on_diagonal(diagonal, inner, side)
                up = before[:, inner.start - 1 - start : inner.stop - 1 - start]
                beside = before[:, inner.start - start : inner.stop - start]
                best = step(torch.stack([up, above[:, nodes], beside, left[:, nodes]], dim=2)[..., None], 0, 0)
                first = max(0, diagonal - 1 - side)  # the first row of the diagonal before that
                corner = found[-2][:, inner.start - 1 - first : inner.stop - 1 - first]
                values = torch.stack([best[..., 0], corner, across[:, nodes]], dim=2)[..., None]
                parts.append(step(values, 1, 0)[..., 0])
            if diagonal < side:
                parts.append(before[:, -1:] + above[:, diagonal * side : diagonal * side + 1])
            found.append(torch.cat(parts, dim=1))
        rows = [torch.arange(max(0, d - side + 1), min(d, side - 1) + 1, device=x.device) for d in range(2 * side - 1)]
        places = torch.cat([row * (side - 1) + diagonal for diagonal, row in enumerate(rows)])
        yield torch.zeros_like(across).index_copy(1, places, torch.cat(found, 1))[..., None], True


def _on_diagonal(diagonal: int, rows: range, side: int) -> slice:
    """The nodes (row, diagonal − row): evenly spaced, side − 1 apart."""
    return slice(rows.start * (side - 1) + diagonal, rows.stop * (side - 1) + diagonal - side + 2, side - 1)


SCHEDULES: dict[str, Schedule] = {kind.name: kind() for kind in (Scan, Bitonic, Pairs, Grid)}
