"""Which programs are proved to be what their specification says, and which changed ones are refused?

    python benchmarks/specifications.py library 1 2 3 17 64        every library program at these lengths
    python benchmarks/specifications.py changes 64                 100 programs with one read or comparator changed

One thread of an AMD EPYC: lengths 1 to 17, 32 and 64 take 19 s, sort at 1,024 takes 3 s, fetch at 256 takes 11 s by
sorting and 24 s on a grid. Of 100 changes at 64, 90 are refuted, 9 are harmless and proved, 1 is left open; at 1,024 it
is 93, 7 and 0.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from posattn.compile import Program, Round, exchange, library, run, word
from posattn.compile.arguments import Source
from posattn.compile.expressions import Exchange, Word
from posattn.compile.input_ranges import grid_of
from posattn.compile.proof.findings import Outcome, TimeLimit
from posattn.compile.proof.specification import prove_specification
from posattn.errors import PosattnError

#: Every library program, in each of its forms.
PROGRAMS = [
    *((name, {}) for name in library.PROGRAMS),
    ("argsort", {"grid": 0.1}),
    ("fetch", {"route": "grid"}),
    ("permute", {"route": "direct"}),
    ("reduce", {"operation": "min"}),
    ("reduce", {"operation": "max"}),
]
CHANGES = ("removed", "reversed", "moved")


def library_table(lengths: list[int]) -> Iterator[tuple[str, int, Outcome, float]]:
    """Every program's outcome and seconds. What is too large to be written out is left out; cummedian beyond 64 too."""
    for length in lengths:
        for name, options in PROGRAMS:
            if name == "cummedian" and length > 64:
                continue
            try:
                program = library.get(name, length, **options)
            except PosattnError:
                continue
            began = time.monotonic()
            outcome = prove_specification(program, TimeLimit()).outcome
            yield f"{name} {' '.join(map(str, options.values()))}".strip(), length, outcome, time.monotonic() - began


def changed(program: Program, change: str, draw: random.Random) -> Program | None:
    """The program with one read, or one comparator, removed, reversed or moved; None where it reads nothing."""
    places = [
        (count, node)
        for count, round_ in enumerate(program.rounds)
        for node in range(program.nodes)
        if _partner(round_, node) is not None
    ]
    if not places:
        return None
    count, node = draw.choice(places)
    round_ = program.rounds[count]
    other = _partner(round_, node)
    assert other is not None
    compared = isinstance(next(iter(round_.update.values())), Exchange) or {"low", "high"} <= set(round_.receive)
    mutual = compared and _partner(round_, other) == node
    if change == "reversed" and mutual:
        return _reversed(program, count, (node, other))
    nodes: dict[int, int | None]
    if change == "removed":
        nodes = {node: node, other: other} if mutual else {node: None}
    elif change == "reversed":
        mirrored = 2 * node - other
        nodes = {node: mirrored if 0 <= mirrored < program.nodes else None}
    else:
        nodes = {node: draw.choice([at for at in range(program.nodes) if at != other])}
    return _with_round(program, count, replace(round_, receive=_read_elsewhere(round_, nodes)))


def _partner(round_: Round, node: int) -> int | None:
    """Another node that a node reads from in a round."""
    sources = (table[node] for table in round_.receive.values())
    return next((source[0] for source in sources if source is not None and source[0] != node), None)


def _read_elsewhere(round_: Round, nodes: dict[int, int | None]) -> dict[str, tuple[Source, ...]]:
    """The round's tables, in which some nodes read all that they read from others from one place, or from nowhere."""

    def source(node: int, held: Source) -> Source:
        if node not in nodes or held is None or held[0] == node:
            return held
        to = nodes[node]
        return None if to is None else (to, held[1])

    return {
        slot: tuple(source(node, held) for node, held in enumerate(table)) for slot, table in round_.receive.items()
    }


def _reversed(program: Program, count: int, pair: tuple[int, int]) -> Program:
    """A comparator that puts the larger number where the smaller one was: by its bits, or by who is low and high."""
    round_ = program.rounds[count]
    update = next(iter(round_.update.values()))
    if not isinstance(update, Exchange):
        tables = {slot: list(table) for slot, table in round_.receive.items()}
        for node in pair:
            tables["low"][node], tables["high"][node] = tables["high"][node], tables["low"][node]
        receive = {slot: tuple(table) for slot, table in tables.items()}
        return _with_round(program, count, replace(round_, receive=receive))
    assert isinstance(update.upper, Word)
    bits = list(program.constants[update.upper.name])
    for node in pair:
        bits[node] = 1 - bits[node]
    ((register, _),) = round_.update.items()
    (slot,) = round_.receive
    flipped = exchange(word(register), word(slot), upper=word("flipped"))
    program = replace(
        program,
        registers=(*program.registers, "flipped"),
        constants={**program.constants, "flipped": tuple(bits)},
    )
    return _with_round(program, count, replace(round_, update={register: flipped}))


def _with_round(program: Program, count: int, round_: Round) -> Program:
    return replace(program, rounds=(*program.rounds[:count], round_, *program.rounds[count + 1 :]), recipe=None)


def agrees(program: Program, samples: int) -> bool:
    """Whether the interpreter agrees with the program's NumPy oracle: on bits, and on small whole numbers."""
    generator = np.random.default_rng(1)
    shape = (samples, program.length, len(program.inputs))
    for x in (generator.integers(0, 2, shape), generator.integers(-9, 10, shape)):
        x = x * np.array([grid_of(program, name) or 1.0 for name in program.inputs])
        for column, name in enumerate(program.inputs):
            if name in program.permutations:
                x[:, :, column] = np.argsort(generator.random(shape[:2]), axis=1)
        assert program.oracle is not None
        wanted = np.asarray(program.oracle(x if len(program.inputs) > 1 else x[:, :, 0]))
        found = run(program, x)
        if not np.allclose(found, wanted.reshape(found.shape), rtol=0, atol=1e-9):
            return False
    return True


def changes(names: list[str], length: int, count: int) -> Iterator[tuple[str, str, Outcome, Program]]:
    """So many changed programs, one by one: which, how, and what step 3 says of it."""
    draw = random.Random(0)
    made = 0
    while made < count:
        name, change = names[made % len(names)], draw.choice(CHANGES)
        program = changed(library.get(name, length), change, draw)
        if program is not None:
            made += 1
            yield name, change, prove_specification(program, TimeLimit()).outcome, program


def main() -> None:
    what, *lengths = sys.argv[1:]
    if what == "library":
        for name, length, outcome, seconds in library_table(list(map(int, lengths))):
            print(f"{name:20} {length:6} {outcome:8} {seconds:8.2f} s", flush=True)
        return
    for length in map(int, lengths):
        large = ("cummedian", "fetch") if length > 64 else ()
        names = ["sort", "sort", *(name for name in library.PROGRAMS if name not in large)]
        table: Counter[tuple[str, str]] = Counter()
        for name, change, outcome, program in changes(names, length, 100):
            harmless = agrees(program, 2000 if length <= 64 else 200) if outcome == Outcome.STANDS else None
            assert harmless is not False, f"{name}, {change}: proved, but the interpreter disagrees"
            table[change, str(outcome)] += 1
            if outcome != Outcome.REFUTED:
                print(f"{length:6} {name:14} {change:9} {outcome}", flush=True)
        print(f"{length:6}", ", ".join(f"{change} {outcome}: {n}" for (change, outcome), n in sorted(table.items())))


if __name__ == "__main__":
    main()
