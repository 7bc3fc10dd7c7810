"""Reading from addresses that are data, where several nodes may name the same one.

Nodes 0 … n − 1 ask and nodes n … 2n − 1 hold the numbers. Requests and numbers are sorted together by address, every
number before its requests; numbers are copied to the right, up to the next number; requests are sorted back to where
they came from.
"""

import numpy as np

from posattn.compile.expressions import clip, maximum, positive, select, word
from posattn.compile.program import Program
from posattn.compile.programs.building import program_length
from posattn.compile.programs.networks import carrying_sort_rounds, doublings
from posattn.compile.rounds import Round, reads
from posattn.compile.specification import Gathered


def gather(length: int) -> Program:
    """The number of the node that each node names; several may name the same.

    Addresses are whole numbers. Those below 0 count as 0, and those beyond the last node as the last.
    """
    length = program_length("gather", length)
    nodes, total = range(length), 2 * length
    finer = 1 / (1 << length.bit_length())  # a request's key is its address, and less than 1 for its place
    constants = {
        "offset": (*((i + 1) * finer for i in nodes), *map(float, nodes)),
        "holds": (*(0.0 for _ in nodes), *(1.0 for _ in nodes)),
        "place": tuple(map(float, range(total))),
    }
    return Program(
        name="gather",
        length=length,
        nodes=total,
        registers=("x", "from", "key", "full", "back", *constants),
        rounds=(
            _requests(length),
            *carrying_sort_rounds(range(total), total, key="key", carried=["x", "full", "back"], grid=finer),
            *(_copy(total, shift) for shift in doublings(total)),
            *carrying_sort_rounds(range(total), total, key="back", carried=["x"], grid=1.0),
        ),
        inputs=("x", "from"),
        constants=constants,
        grid={"from": 1.0},
        oracle=_gathered,
        specification=Gathered(),
    )


def _requests(length: int) -> Round:
    """Requests at the first nodes, numbers at the others, each with its key and its place."""
    nodes = range(length)
    return Round(
        receive={"number": reads("x", [*(None for _ in nodes), *nodes])},
        update={
            "key": clip(word("from"), low=0, high=length - 1) + word("offset"),
            "x": word("number"),
            "full": word("holds"),
            "back": word("place"),
        },
        note="requests at the first nodes, numbers at the others",
    )


def _copy(total: int, shift: int) -> Round:
    """Nodes without a number take that of a node to the left, if it has one."""
    left = [i - shift if i >= shift else None for i in range(total)]
    return Round(
        receive={"number": reads("x", left), "known": reads("full", left)},
        update={
            # `full` itself would do; a proof of rounding tells 0 from 1 for bits that are computed, and finds none here
            "x": select(positive(word("full"), grid=1.0), word("x"), word("number")),
            "full": maximum(word("full"), word("known")),
        },
        note=f"nodes without a number take that of {shift} to the left",
    )


def _gathered(v: np.ndarray) -> np.ndarray:
    named = np.clip(v[:, :, 1:], 0, v.shape[1] - 1).astype(int)
    return np.take_along_axis(v[:, :, :1], named, axis=1)
