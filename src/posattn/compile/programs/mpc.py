"""MPC programs: machines that send messages to addresses which they compute from their data.

N machines with s slots each; a machine and a slot make an address, machine·s + slot. In a round every machine may send
one word to one address from each of its slots (address −1: none), and no address may be sent to twice. What a machine
gets is there when it updates its registers: words in0, in1, … and bits got0, got1, …

`to_program` turns this into a program with a static network, the route that Theorem 5.1 of Back de Luca et al. 2025
takes, in two ways that need no knowledge of the addresses beforehand:

    route="sort"   2Ns more nodes: sort messages by address, twice; O(log² Ns) rounds
    route="grid"   (Ns)² more nodes, one for each sender and receiver: copy, filter, add up; O(log Ns) rounds

For destinations that are known when compiling, see `posattn.compile.programs.benes`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posattn.checks import choice, instance, several, text, whole
from posattn.compile.arguments import Source, check_grid_and_oracle, expressions, names, numbers
from posattn.compile.expressions import (
    Constant,
    Expression,
    as_expression,
    distance,
    gate,
    maximum,
    relu,
    word,
    words_of,
)
from posattn.compile.program import Program, Round, reads
from posattn.compile.programs.networks import carrying_sort_rounds, doublings
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


def to_program(program: Mpc, *, route: str = "sort") -> Program:
    """The same computation with static communication."""
    instance("program", program, Mpc, fix="write one as posattn.compile.programs.mpc.Mpc(…)")
    routes = {"sort": _sorted_route, "grid": _grid_route}
    return routes[choice("route", route, routes)](program)


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


def _sends(round_: Exchange, slots: int) -> Round:
    """The machines write down what they send; other nodes do the same with their zeros, and nobody reads it."""
    nothing = Message(address=Constant(-1.0), word=Constant(0.0))
    update: dict[str, Expression] = {}
    for k, message in enumerate((*round_.messages, *[nothing] * (slots - len(round_.messages)))):
        update |= {f"address{k}": message.address, f"word{k}": message.word}
    return Round(update=update, note="messages and their addresses")


def _assembled(
    program: Mpc, total: int, registers: tuple[str, ...], constants: dict, rounds: list[Round], route: str
) -> Program:
    empty = (0.0,) * (total - program.machines)
    own = {name: (*values, *empty) for name, values in program.constants.items()}
    sent = tuple(name for k in range(program.slots) for name in (f"address{k}", f"word{k}"))
    return Program(
        name=f"{program.name}-{route}" if route != "sort" else program.name,
        length=program.machines,
        nodes=total,
        registers=(*program.registers, *sent, *registers, *constants),
        rounds=tuple(rounds),
        inputs=program.inputs,
        outputs=program.outputs,
        constants=own | constants,
        pad=None,
        grid=program.grid,
        permutations=program.permutations,
        oracle=program.oracle,
    )


def _cells(program: Mpc) -> list[tuple[int, int]]:
    return [(machine, k) for machine in range(program.machines) for k in range(program.slots)]


def _grid_route(program: Mpc) -> Program:
    """Node (a, b) keeps cell a's message if it is addressed to cell b; then column b is added up into node (0, b)."""
    cells, first = _cells(program), program.machines
    count = len(cells)
    total = first + count * count

    def node(a: int, b: int) -> int:
        return first + a * count + b

    to = [-1.0] * total
    for a in range(count):
        for b in range(count):
            to[node(a, b)] = float(b)
    rounds: list[Round] = []
    for round_ in program.rounds:
        addresses: list[Source] = [None] * total
        words: list[Source] = [None] * total
        for a, (machine, k) in enumerate(cells):
            for b in range(count):
                addresses[node(a, b)], words[node(a, b)] = (machine, f"address{k}"), (machine, f"word{k}")
        far = distance(word("address"), word("to"))
        rounds += [
            _sends(round_, program.slots),
            Round(
                receive={"address": tuple(addresses), "carried": tuple(words)},
                update={"kept": gate(word("carried"), shut=far), "hit": relu(1 - far)},
                note="every pair of sender and receiver filters",
            ),
        ]
        for shift in doublings(count):
            below: list[int | None] = [None] * total
            for a in range(count - shift):
                for b in range(count):
                    below[node(a, b)] = node(a + shift, b)
            rounds.append(
                Round(
                    receive={"more": reads("kept", below), "hits": reads("hit", below)},
                    update={"kept": word("kept") + word("more"), "hit": maximum(word("hit"), word("hits"))},
                    note=f"add up columns, {shift} further",
                )
            )
        rounds.append(_delivery(program, round_, total, lambda cell: node(0, cell), "kept", "hit"))
    return _assembled(program, total, ("kept", "hit"), {"to": tuple(to)}, rounds, "grid")


def _delivery(
    program: Mpc, round_: Exchange, total: int, place: Callable[[int], int], register: str, hit: str
) -> Round:
    """Machines read what has arrived at their addresses, and update."""
    receive: dict[str, tuple[Source, ...]] = {}
    for k in range(program.slots):
        sources = [place(machine * program.slots + k) for machine in range(program.machines)]
        nodes = [*sources, *[None] * (total - program.machines)]
        receive |= {f"in{k}": reads(register, nodes), f"got{k}": reads(hit, nodes)}
    used = {name for expression in round_.update.values() for name in words_of(expression)}
    return Round(
        receive={slot: table for slot, table in receive.items() if slot in used},
        update=dict(round_.update),
        note="messages arrive, machines compute",
    )


def _sorted_route(program: Mpc) -> Program:
    """Sort messages and one place-holder for every address by address; drop place-holders whose address has a message;
    sort again: what is for address b is then at place b.

    Keys: a message for b has b, the place-holder of b has b + ½, what is dropped or was never sent lies above all.
    """
    cells, first = _cells(program), program.machines
    count = len(cells)
    total = first + 2 * count
    bus = list(range(first, total))
    above = float(2 * count)
    holder = [0.0] * total
    spare = [0.0] * total
    sender = [0.0] * total
    for place in range(count):
        spare[first + place] = above + place
        sender[first + place] = 1.0
        holder[first + count + place] = place + 0.5
    constants = {"holder": tuple(holder), "spare": tuple(spare), "sender": tuple(sender)}
    rounds: list[Round] = []
    for round_ in program.rounds:
        addresses: list[Source] = [None] * total
        words: list[Source] = [None] * total
        for a, (machine, k) in enumerate(cells):
            addresses[first + a], words[first + a] = (machine, f"address{k}"), (machine, f"word{k}")
        # a message: its address, or `spare` where that is −1; a place-holder: `holder`. relu(−address) is 1 for none.
        none = relu(-word("address"))
        rounds += [
            _sends(round_, program.slots),
            Round(
                receive={"address": tuple(addresses), "carried": tuple(words)},
                update={
                    "key": relu(word("address")) + word("holder") + gate(word("spare"), shut=1 - none),
                    "kept": word("carried"),
                    "hit": word("sender"),
                },
                note="messages and place-holders on the bus",
            ),
            *carrying_sort_rounds(bus, total, key="key", carried=["kept", "hit"], grid=0.5),
            Round(
                # the first place has nobody before it: it reads itself, and its key is never its key + ½
                receive={"before": reads("key", [None] * first + bus[:1] + bus[:-1])},
                update={
                    "key": word("key")
                    + gate(2 * above, shut=2 * distance(word("key"), word("before") + 0.5) + word("hit"))
                },
                note="drop the place-holders whose address has a message",
            ),
            *carrying_sort_rounds(bus, total, key="key", carried=["kept", "hit"], grid=0.5),
            _delivery(program, round_, total, lambda cell: bus[cell], "kept", "hit"),
        ]
    return _assembled(program, total, ("key", "kept", "hit"), constants, rounds, "sort")
