"""Machines that address each other by data: messages, rounds and programs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posattn.checks import several, text, whole
from posattn.compile.arguments import check_grid_and_oracle, expressions, names, numbers
from posattn.compile.expressions import Expression, as_expression, word
from posattn.errors import require

#: Machines whose tables are written out.
MOST_MACHINES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Message:
    """A word and the address it goes to; a whole number, or −1 for no message."""

    address: Expression
    word: Expression

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", as_expression(self.address))
        object.__setattr__(self, "word", as_expression(self.word))


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One round: messages, one for each slot, then an update from registers, in0 …, got0 …"""

    messages: tuple[Message, ...]
    update: Mapping[str, Expression]

    def __post_init__(self) -> None:
        fix = "name the messages of a round in a tuple, as (Message(address=…, word=…),)"
        object.__setattr__(self, "messages", several("messages", self.messages, Message, fix=fix))
        object.__setattr__(self, "update", expressions("update", self.update))


@dataclass(frozen=True, kw_only=True)
class Mpc:
    """A program for machines that address each other by data."""

    name: str
    machines: int
    registers: tuple[str, ...]
    rounds: tuple[Exchange, ...]
    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ("x",)
    constants: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    permutations: tuple[str, ...] = ()
    grid: float | None = None  # inputs are multiples of it; needed where addresses are computed from inputs
    oracle: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        text("name", self.name)
        object.__setattr__(self, "machines", _machines(self.machines))
        fix = "name the rounds in a tuple, as (Exchange(messages=…, update=…),)"
        object.__setattr__(self, "rounds", several("rounds", self.rounds, Exchange, fix=fix))
        for name in ("registers", "inputs", "outputs", "permutations"):
            object.__setattr__(self, name, names(name, getattr(self, name)))
        object.__setattr__(self, "constants", numbers("constants", self.constants))
        check_grid_and_oracle(self.grid, self.oracle)

    @property
    def slots(self) -> int:
        return max([1, *(len(round_.messages) for round_ in self.rounds)])


def _machines(count: Any) -> int:
    found = whole("machines", count, least=1)
    require(
        found <= MOST_MACHINES,
        f"machines={count}: a program with static communication has a table for each of them in each of its rounds. "
        f"Use at most {MOST_MACHINES}.",
    )
    return found


def fetch(machines: int) -> Mpc:
    """Every machine gets the number of the machine it names: it sends its own address there, and the answer comes back.

    >>> [message for round_ in fetch(3).rounds for message in round_.messages][0].address
    Word(name='from')
    """
    machines = _machines(machines)
    return Mpc(
        name="fetch",
        machines=machines,
        registers=("x", "from", "asker", "me"),
        inputs=("x", "from"),
        constants={"me": tuple(map(float, range(machines)))},
        permutations=("from",),
        rounds=(
            Exchange(messages=(Message(address=word("from"), word=word("me")),), update={"asker": word("in0")}),
            Exchange(messages=(Message(address=word("asker"), word=word("x")),), update={"x": word("in0")}),
        ),
        oracle=lambda v: np.take_along_axis(v[:, :, :1], v[:, :, 1:].astype(int), axis=1),
    )
