"""Messages to computed addresses, delivered over a static network: on a grid of nodes, or by sorting."""

from collections.abc import Callable

from posattn.checks import choice, instance
from posattn.compile.arguments import Source
from posattn.compile.expressions import Constant, Expression, distance, gate, maximum, relu, word, words_of
from posattn.compile.program import Program
from posattn.compile.programs.mpc.machines import Exchange, Message, Mpc
from posattn.compile.programs.networks import carrying_sort_rounds, doublings
from posattn.compile.rounds import Round, reads


def to_program(program: Mpc, *, route: str = "sort") -> Program:
    """The same computation with static communication."""
    instance("program", program, Mpc, fix="write one as posattn.compile.programs.mpc.Mpc(…)")
    routes = {"sort": _sorted_route, "grid": _grid_route}
    return routes[choice("route", route, routes)](program)


def _sends(round_: Exchange, slots: int) -> Round:
    """Machines write down what they send. Other nodes do the same with their zeros, which are never read."""
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
                # the first place has none before it and reads itself: its key never equals its key + ½
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
