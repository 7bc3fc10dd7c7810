"""What lists of numbers lead to on the way, for models that reach the answer in ⌈log₂ length⌉ iterations.

Each function takes (…, nodes) to (…, nodes, iterations). A list of one number has one iteration as well, so that there
is always a last channel.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def iterations(length: int) -> int:
    """⌈log₂ length⌉, and at least one.

    >>> [iterations(length) for length in (1, 2, 3, 4, 5, 8, 9)]
    [1, 1, 2, 2, 3, 3, 4]
    """
    return max(1, (length - 1).bit_length())


def window_answers(
    x: Float[Tensor, "*batch nodes"], function: Callable[[Tensor], Tensor]
) -> Float[Tensor, "*batch nodes iterations"]:
    """Channel s at node i: the answer for the 2^(s+1) numbers that end at i, or for all of them where there are fewer.

    That is what a Hillis–Steele scan holds after iteration s. `function` answers for every prefix.
    """
    prefixes = function(x)
    channels = []
    for iteration in range(iterations(x.shape[-1])):
        width = 2 ** (iteration + 1)
        if width >= x.shape[-1]:
            channels.append(prefixes)
            continue
        windows = function(x.unfold(-1, width, 1))[..., -1]  # those that end at width − 1, width, …
        channels.append(torch.cat([prefixes[..., : width - 1], windows], dim=-1))
    return torch.stack(channels, dim=-1)


def sorted_blocks(x: Float[Tensor, "*batch nodes"]) -> Float[Tensor, "*batch nodes iterations"]:
    """Channel s: every aligned block of 2^(s+1) numbers sorted by itself; the last one may be shorter."""
    nodes = x.shape[-1]
    channels = []
    for iteration in range(iterations(nodes)):
        width = 2 ** (iteration + 1)
        padded = F.pad(x, (0, -nodes % width), value=math.inf)  # sorts to the end, where it is cut off
        channels.append(padded.unflatten(-1, (-1, width)).sort(-1).values.flatten(-2)[..., :nodes])
    return torch.stack(channels, dim=-1)
