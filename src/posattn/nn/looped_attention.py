"""The attention of looped models as matrices over nodes, for pictures: no forward pass builds one.

A row holds a head's weights A on the numbers that a node reads, those of its carrier c included:

    head = A·x − c·x,    number ← c·x + MLP(heads)

Under a shift, rows sum to 1. A chain of two steps is one matrix: where the second step reads what the first one has
joined, the weights of the first stand there, times the second's, head by head. Costs of tables are inputs of the node
itself and have no column.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from posattn.errors import require
from posattn.nn.schedules import Bitonic, Pairs, Scan, Schedule
from posattn.nn.symmetry import Row

#: Weights of all iterations and heads that are written out: half a gigabyte in float64.
MOST_WEIGHTS = 1 << 26
#: A kind of step, (roles, heads, numbers that it reads): the weights on these.
StepWeights = Float[Tensor, "_ heads _"]
Matrices = Float[Tensor, "iterations heads nodes nodes"]


def step_weights(
    logits: Float[Tensor, "roles heads shares"], kinds: Sequence[tuple[Sequence[Row], Row]], roles: Sequence[int]
) -> list[StepWeights]:
    """c + Σ_k share_k · invariant_k, for every kind of step."""
    found, first = [], 0
    for (invariants, carrier), count in zip(kinds, roles, strict=False):
        shares = logits[first : first + count].softmax(-1)[..., 1:]  # the first one goes to nothing
        seen = shares.new_tensor([[float(factor) for factor in row] for row in invariants])
        found.append(shares @ seen + shares.new_tensor([float(factor) for factor in carrier]))
        first += count
    return found


def can_be_shown(schedule: Schedule, length: int, heads: int) -> bool:
    """Whether there is room for the matrices of all iterations."""
    return _iterations(schedule, length) * heads * length**2 <= MOST_WEIGHTS


def matrices(schedule: Schedule, length: int, weights: Sequence[StepWeights]) -> Matrices:
    """One matrix for every iteration and head; the wavefront of a table is one iteration."""
    schedule.check(length)
    heads = weights[0].shape[1]
    require(
        can_be_shown(schedule, length, heads),
        f"length={length}: {_iterations(schedule, length)} iterations of {heads} heads have too many weights to be "
        "written out. Use a smaller length; the model itself takes any.",
    )
    if isinstance(schedule, Scan | Bitonic):
        found = _of_sequences(schedule, length, weights[0])
    elif isinstance(schedule, Pairs):
        found = _of_pairs(length, weights)
    else:
        found = [_of_tables(length, weights)]
    return torch.stack(found) if found else weights[0].new_zeros(0, heads, length, length)


def _iterations(schedule: Schedule, length: int) -> int:
    if isinstance(schedule, Scan | Bitonic):
        return len(schedule.reads(length))
    return math.isqrt(length) if isinstance(schedule, Pairs) else 1


def _of_sequences(schedule: Scan | Bitonic, length: int, weights: StepWeights) -> list[Tensor]:
    """Nodes without a partner keep their number."""
    node, found = torch.arange(length, device=weights.device), []
    for partner, role in schedule.reads(length):
        partner, (own, other) = partner.to(weights.device), weights[role.to(weights.device)].unbind(-1)
        alone = (partner == node)[:, None]
        matrix = weights.new_zeros(weights.shape[1], length, length)
        matrix[:, node, node] = torch.where(alone, 1.0, own).T
        matrix[:, node, partner] += torch.where(alone, 0.0, other).T
        found.append(matrix)
    return found


def _of_pairs(length: int, weights: Sequence[StepWeights]) -> list[Tensor]:
    own, to, by = _one_or_chained(weights)
    side = math.isqrt(length)
    node, found = torch.arange(length, device=own.device), []
    for k in range(side):
        matrix = own.new_zeros(len(own), length, length)
        for weight, read in ((own, node), (to, node // side * side + k), (by, k * side + node % side)):
            matrix[:, node, read] += weight[:, None]
        found.append(matrix)
    return found


def _one_or_chained(weights: Sequence[StepWeights]) -> list[Tensor]:
    """On D_ij, D_ik and D_kj, one number per head each."""
    if len(weights) == 1:
        return list(weights[0][0].unbind(-1))
    (to, by), (own, joined) = (kind[0].unbind(-1) for kind in weights)
    return [own, joined * to, joined * by]


def _of_tables(length: int, weights: Sequence[StepWeights]) -> Tensor:
    """The first node is its own cost, and nodes at the border have one candidate."""
    side = math.isqrt(length)
    above, _, left, _ = weights[0][0].unbind(-1)
    best, across, _ = weights[1][0].unbind(-1)
    node = torch.arange(length, device=above.device)
    inner = node[(node >= side) & (node % side > 0)]
    matrix = above.new_zeros(len(above), length, length)
    for weight, back in ((best * above, side), (best * left, 1), (across, side + 1)):
        matrix[:, inner, inner - back] = weight[:, None]
    for border, back in ((node[side::side], side), (node[1:side], 1), (node[:1], 0)):
        matrix[:, border, border - back] = 1.0
    return matrix
