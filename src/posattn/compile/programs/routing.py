"""Programs that only move numbers from node to node."""

from collections.abc import Sequence

import numpy as np

from posattn.checks import choice, whole
from posattn.compile.expressions import word
from posattn.compile.program import Program
from posattn.compile.programs import mpc
from posattn.compile.programs.benes import benes
from posattn.compile.programs.building import one_register, program_length
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


def fetch(length: int, route: str = "sort") -> Program:
    """The number of the node that each node names. Addresses are data: ask, then answer, two rounds of an MPC."""
    length = program_length("fetch", length, route)
    return mpc.to_program(mpc.fetch(length), route=route)
