"""Programs that only move numbers from node to node."""

from collections.abc import Sequence

import numpy as np

from posattn.checks import choice, whole
from posattn.compile.expressions import clip, maximum, select, word
from posattn.compile.program import Program
from posattn.compile.programs import mpc
from posattn.compile.programs.benes import benes
from posattn.compile.programs.building import one_register, program_length
from posattn.compile.programs.networks import carrying_sort_rounds, doublings
from posattn.compile.rounds import Round, reads
from posattn.errors import require


def broadcast(length: int, source: int = 0) -> Program:
    """One node's number, at every node."""
    length = program_length("broadcast", length)
    source = whole("source", source, least=0)
    require(source < length, f"source={source!r}: it must be a node of 0 … {length - 1}.")
    tell = Round(
        receive={"told": reads("x", [source] * length)}, update={"x": word("told")}, note=f"node {source} tells all"
    )

    def oracle(v: np.ndarray) -> np.ndarray:
        return np.repeat(v[:, source : source + 1], v.shape[1], axis=1)

    return one_register("broadcast", length, [tell], oracle, pad=None if source else 0.0)


def permute(length: int, destinations: Sequence[int] | None = None, route: str = "benes") -> Program:
    """Numbers moved to other nodes, that of node i to destinations[i]. Default: reversed, by a Beneš network."""
    length = program_length("permute", length, route)
    listed = isinstance(destinations, Sequence | np.ndarray) and not isinstance(destinations, str)
    require(
        destinations is None or (listed and len(destinations) == length),
        f"destinations={destinations!r}: name a node for each of the {length} numbers.",
    )
    targets = list(destinations) if destinations is not None else list(range(length))[::-1]
    stages = benes(targets)
    if choice("route", route, ("benes", "direct")) == "direct":
        stages = [tuple(int(source) for source in np.argsort(targets))]
    rounds = [
        Round(receive={"taken": reads("x", stage)}, update={"x": word("taken")}, note="switches") for stage in stages
    ]
    return one_register("permute", length, rounds, lambda v: v[:, np.argsort(targets)], pad=None)


def gather(length: int) -> Program:
    """The number of the node that each node names; several may name the same. Numbers lie on a grid of 1.

    Requests and numbers are sorted together by address, every number before its requests. Then numbers are copied to
    the right, 1, 2, 4 … places at a time, up to the next number, and requests are sorted back to where they came from.
    Addresses below 0 count as 0, and those beyond the last node as the last.
    """
    length = program_length("gather", length)
    asking, holding = range(length), range(length, 2 * length)
    total = 2 * length
    finer = 1 / (1 << length.bit_length())  # a request's key is its address, and less than 1 for its place
    constants = {
        "offset": (*((i + 1) * finer for i in asking), *map(float, asking)),
        "holds": (*(0.0 for _ in asking), *(1.0 for _ in holding)),
        "place": tuple(map(float, range(total))),
    }
    first = Round(
        receive={"number": reads("x", [*(None for _ in asking), *asking])},
        update={
            "key": clip(word("from"), low=0, high=length - 1) + word("offset"),
            "x": word("number"),
            "full": word("holds"),
            "back": word("place"),
        },
        note="requests at the first nodes, numbers at the others",
    )
    copies = [
        Round(
            receive={name: reads(register, shifted) for name, register in (("number", "x"), ("known", "full"))},
            update={
                "x": select(word("full"), word("x"), word("number")),
                "full": maximum(word("full"), word("known")),
            },
            note=f"who has no number yet takes that of {shift} to the left",
        )
        for shift in doublings(total)
        for shifted in [[i - shift if i >= shift else None for i in range(total)]]
    ]
    carried = {"key": ["x", "full", "back"], "back": ["x"]}
    there, home = (
        carrying_sort_rounds(range(total), total, key=key, carried=carried[key], grid=grid)
        for key, grid in (("key", finer), ("back", 1.0))
    )

    def oracle(v: np.ndarray) -> np.ndarray:
        named = np.clip(v[:, :, 1:], 0, v.shape[1] - 1).astype(int)
        return np.take_along_axis(v[:, :, :1], named, axis=1)

    return Program(
        name="gather",
        length=length,
        nodes=total,
        registers=("x", "from", "key", "full", "back", *constants),
        rounds=(first, *there, *copies, *home),
        inputs=("x", "from"),
        constants=constants,
        grid=1.0,
        oracle=oracle,
    )


def fetch(length: int, route: str = "sort") -> Program:
    """The number of the node that each node names. Addresses are data: ask, then answer, two rounds of an MPC."""
    length = program_length("fetch", length, route)
    return mpc.to_program(mpc.fetch(length), route=route)
