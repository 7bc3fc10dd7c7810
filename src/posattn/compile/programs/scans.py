"""Scans by doubling (Hillis and Steele 1986): in ⌈log₂ n⌉ rounds every node knows about all nodes to its left."""

from collections.abc import Callable
from typing import Any

import numpy as np

from posattn.checks import choice
from posattn.compile.expressions import gate, maximum, minimum, relu, word
from posattn.compile.program import Program
from posattn.compile.programs.building import one_register, program_length
from posattn.compile.programs.networks import doublings
from posattn.compile.programs.routing import broadcast
from posattn.compile.rounds import Round, reads
from posattn.compile.specification import Reduced, Scan, Semigroup

x, left = word("x"), word("left")
#: Stretches by their sum, their best start, their best end and their best part: start, end ≥ sum, and best ≥ both.
BEST_SUBARRAY = Semigroup(
    parts=("sum", "start", "end", "best"),
    enter=dict.fromkeys(("sum", "start", "end", "best"), x),
    join={
        "sum": word("left sum") + word("right sum"),
        "start": maximum(word("left start"), word("left sum") + word("right start")),
        "end": maximum(word("right end"), word("left end") + word("right sum")),
        "best": maximum(maximum(word("left best"), word("right best")), word("left end") + word("right start")),
    },
    leave=(word("best"),),
    never_negative=(word("end") - word("sum"), word("best") - word("start")),
)


def cumsum(length: int) -> Program:
    """Sums of all prefixes: add what is 1, then 2, then 4 … nodes to the left."""
    length = program_length("cumsum", length)
    rounds = [
        Round(
            receive={"left": reads("x", [i - shift if i >= shift else None for i in range(length)])},
            update={"x": x + left},
            note=f"add the sum that ends {shift} to the left",
        )
        for shift in doublings(length)
    ]
    return one_register("cumsum", length, rounds, lambda v: np.cumsum(v, axis=1), specification=Scan("sum"))


def cummin(length: int) -> Program:
    """Minima of all prefixes. Nodes without a neighbour that far to the left read node 0; min may count it twice."""
    return _extremum("cummin", length, minimum, np.minimum.accumulate, pad=1.0)


def cummax(length: int) -> Program:
    """Maxima of all prefixes."""
    return _extremum("cummax", length, maximum, np.maximum.accumulate, pad=-1.0)


def _extremum(name: str, length: int, combine: Callable[..., Any], oracle: Callable[..., Any], pad: float) -> Program:
    length = program_length(name, length)
    rounds = [
        Round(
            receive={"left": reads("x", [max(i - shift, 0) for i in range(length)])},
            update={"x": combine(x, left)},
            note=f"compare with what ends {shift} to the left",
        )
        for shift in doublings(length)
    ]
    specification = Scan(name.removeprefix("cum"))
    return one_register(name, length, rounds, lambda v: oracle(v, axis=1), pad=pad, specification=specification)


def max_subarray(length: int) -> Program:
    """Largest sum of a non-empty subarray of every prefix: blocks know their sum, best start, best end and best.

    A block and the one to its left make one: sum = sum₁ + sum₂, start = max(start₁, sum₁ + start₂), end = max(end₂,
    end₁ + sum₂), best = max(best₁, best₂, end₁ + start₂). Where there is nothing to the left, the words are 0, which
    is right but for start₁ and best₁: these are gated by `alone`, a bit for every round.
    """
    length = program_length("max-subarray", length)
    names = ("sum", "start", "end", "best")
    alone = {f"alone{shift}": tuple(float(i < shift) for i in range(length)) for shift in doublings(length)}
    rounds = []
    for shift in doublings(length):
        sources = [i - shift if i >= shift else None for i in range(length)]
        before = dict.fromkeys(names, "x") if shift == 1 else {name: name for name in names}
        total, start, end, best = (word(before[name]) for name in names)
        total_, start_, end_, best_ = (word(f"{name} left") for name in names)
        shut = word(f"alone{shift}")
        joined = total_ + start
        rounds.append(
            Round(
                receive={f"{name} left": reads(before[name], sources) for name in names},
                update={
                    "sum": total_ + total,
                    "start": joined + gate(relu(start_ - joined), shut=shut),
                    "end": maximum(end, end_ + total),
                    "best": maximum(maximum(best, end_ + start), best + gate(relu(best_ - best), shut=shut)),
                },
                note=f"join with the block that ends {shift} to the left",
            )
        )
    rounds = rounds or [Round(update={"best": x}, note="a single number")]
    return Program(
        name="max-subarray",
        length=length,
        nodes=length,
        registers=("x", *names, *alone),
        rounds=tuple(rounds),
        outputs=("best",),
        constants=alone,
        pad=0.0,
        oracle=_best_subarrays,
        specification=Scan(BEST_SUBARRAY),
    )


def _best_subarrays(v: np.ndarray) -> np.ndarray:
    """Over all pairs of ends, by brute force."""
    sums = np.concatenate([np.zeros_like(v[:, :1]), np.cumsum(v, axis=1)], axis=1)
    return np.stack(
        [
            np.max([sums[:, stop] - sums[:, :stop].min(axis=1) for stop in range(1, end + 1)], axis=0)
            for end in range(1, v.shape[1] + 1)
        ],
        axis=1,
    )


def reduce(length: int, operation: str = "sum") -> Program:
    """The sum, min or max of all numbers, at every node: a scan, then the last node tells."""
    scans = {"sum": (cumsum, np.sum), "min": (cummin, np.min), "max": (cummax, np.max)}
    scan, total = scans[choice("operation", operation, scans)]
    length = program_length("reduce", length)
    made = scan(length)
    rounds = (*made.rounds, *broadcast(length, source=length - 1).rounds)

    def oracle(v: np.ndarray) -> np.ndarray:
        return np.repeat(total(v, axis=1, keepdims=True), v.shape[1], axis=1)

    name = f"reduce-{operation}" if operation != "sum" else "reduce"
    return one_register(name, length, rounds, oracle, pad=made.pad, specification=Reduced(operation))
