"""Seventeen algorithms as programs: graphs, transforms, automata, strings and numbers.

python examples/programs.py        compiles, verifies and proves every one, in about two minutes
python examples/programs.py FFT    one of them, with its whole proof
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from posattn.compile import (
    Program,
    Round,
    compile,
    equal,
    exchange,
    gate,
    library,
    maximum,
    minimum,
    positive,
    reads,
    relu,
    select,
    word,
)
from posattn.compile.expressions import Expression
from posattn.compile.specification import Computes, Ranked, Reduced, Scan, Semigroup, Sorted

#: A ring of eight nodes with two chords, by the neighbours of each node, itself first.
RING = [[node, (node + 1) % 8, (node - 1) % 8, {0: 4, 4: 0, 1: 6, 6: 1}.get(node, node)] for node in range(8)]


class Example(NamedTuple):
    """A program, the largest size of its inputs, and how finely functions outside the language are fitted."""

    program: Program
    domain: float | dict[str, float]
    fit: int | None = None


def both(one: Expression, other: Expression) -> Expression:
    """The bit "one and other"."""
    return relu(one + other - 1)


def either(one: Expression, other: Expression) -> Expression:
    """The bit "one or other"."""
    return maximum(one, other)


def total(terms: Sequence[Expression]) -> Expression:
    return sum(terms[1:], terms[0])


def to_left(node: int, steps: int) -> int | None:
    return node - steps if node >= steps else None


def matrix_vector() -> Program:
    """A fixed 8 × 8 matrix times the input, in one round: node i holds row i."""
    matrix = np.array([[(3 * i + 5 * j) % 8 - 4 for j in range(8)] for i in range(8)]) / 4
    return Program(
        name="matrix times vector",
        length=8,
        nodes=8,
        registers=("x", *(f"a{j}" for j in range(8))),
        constants={f"a{j}": tuple(matrix[:, j]) for j in range(8)},
        rounds=(
            Round(
                receive={f"x{j}": reads("x", [j] * 8) for j in range(8)},
                update={"x": total([word(f"a{j}") * word(f"x{j}") for j in range(8)])},
            ),
        ),
        oracle=lambda x: x @ matrix.T,
        specification=Computes({"x": tuple(total([word(f"x[{j}]") * a for j, a in enumerate(row)]) for row in matrix)}),
    )


def segmented_scan() -> Program:
    """Running sums that start again wherever `flag` is 1."""
    return Program(
        name="segmented scan",
        length=8,
        nodes=8,
        registers=("x", "flag"),
        inputs=("x", "flag"),
        grid={"flag": 1},
        rounds=(
            Round(update={"flag": 1 - equal(word("flag"), 0)}, note="whatever is not 0 is 1"),
            *(
                Round(
                    receive={
                        "before": reads("x", [to_left(node, 1 << step) for node in range(8)]),
                        "flagged": reads("flag", [to_left(node, 1 << step) for node in range(8)]),
                    },
                    update={
                        "x": word("x") + gate(word("before"), shut=word("flag")),
                        "flag": either(word("flag"), word("flagged")),
                    },
                )
                for step in range(3)
            ),
        ),
        oracle=_segmented_sums,
        specification=Scan(
            Semigroup(
                parts=("sum", "cut"),
                enter={"sum": word("x"), "cut": 1 - equal(word("flag"), 0)},
                join={
                    "sum": word("right sum") + gate(word("left sum"), shut=word("right cut")),
                    "cut": either(word("left cut"), word("right cut")),
                },
                leave=(word("sum"),),
                never_negative=(word("cut"),),
            )
        ),
    )


def _segmented_sums(x: np.ndarray) -> np.ndarray:
    sums = x[..., 0].copy()
    for node in range(1, sums.shape[-1]):
        sums[..., node] += np.where(x[..., node, 1] == 0, sums[..., node - 1], 0)
    return sums


def breadth_first() -> Program:
    """Distance from the nodes marked 1, in a ring with chords: a node counts the rounds until it is reached."""
    names = [f"near{k}" for k in range(1, 4)]
    mark = Round(update={"reached": positive(word("x")), "x": 1 - positive(word("x"))})
    spread = either(word("reached"), either(word("near1"), either(word("near2"), word("near3"))))
    step = Round(
        receive={name: reads("reached", [RING[node][k] for node in range(8)]) for k, name in enumerate(names, 1)},
        update={"reached": spread, "x": word("x") + 1 - spread},
    )
    return Program(
        name="breadth-first search",
        length=8,
        nodes=8,
        registers=("x", "reached"),
        grid=1,
        rounds=(mark, step, step, step),
        oracle=_hops,
    )


def _hops(x: np.ndarray) -> np.ndarray:
    distance = np.where(x > 0, 0, 4)
    for _ in range(4):
        distance = np.minimum(distance, np.min([distance[..., [r[k] for r in RING]] + 1 for k in range(4)], axis=0))
    return distance


def bellman_ford() -> Program:
    """The cheapest way to each node, where node i can be entered at price x[i]. Edges have fixed weights."""
    weights = [[0.0, *(1 + ((node + other) % 5) / 4 for other in RING[node][1:])] for node in range(8)]
    names = [f"near{k}" for k in range(1, 4)]
    ways = [word(name) + word(f"w{k}") for k, name in enumerate(names, 1)]
    step = Round(
        receive={name: reads("x", [RING[node][k] for node in range(8)]) for k, name in enumerate(names, 1)},
        update={"x": minimum(minimum(word("x"), ways[0]), minimum(ways[1], ways[2]))},
    )

    def oracle(x: np.ndarray) -> np.ndarray:
        cost = np.full((8, 8), np.inf)
        for node in range(8):
            for k, other in enumerate(RING[node]):
                cost[node, other] = min(cost[node, other], weights[node][k])
        for middle in range(8):
            cost = np.minimum(cost, cost[:, [middle]] + cost[[middle]])
        return np.min(x[..., None, :] + cost, axis=-1)

    return Program(
        name="Bellman-Ford",
        length=8,
        nodes=8,
        registers=("x", "w1", "w2", "w3"),
        constants={f"w{k}": tuple(row[k] for row in weights) for k in (1, 2, 3)},
        rounds=(step,) * 7,
        oracle=oracle,
    )


def odd_even_sort() -> Program:
    """Neighbours compare and exchange, in n rounds."""
    rounds = []
    for start in (0, 1) * 4:
        partner = list(range(8))
        for low in range(start, 7, 2):
            partner[low], partner[low + 1] = low + 1, low
        upper = "odd" if start == 0 else "even"
        rounds.append(
            Round(
                receive={"other": reads("x", partner)},
                update={"x": exchange(word("x"), word("other"), upper=word(upper))},
            )
        )
    return Program(
        name="odd-even sort",
        length=8,
        nodes=8,
        registers=("x", "odd", "even"),
        constants={"odd": (0.0, 1.0) * 4, "even": (1.0, 0.0) * 4},
        rounds=tuple(rounds),
        oracle=lambda x: np.sort(x, axis=-1),
        specification=Sorted(),
    )


def walsh_hadamard() -> Program:
    """Sums and differences over the edges of a cube."""
    signs = {f"sign{bit}": tuple(-1.0 if node >> bit & 1 else 1.0 for node in range(8)) for bit in range(3)}
    matrix = [[(-1) ** (i & j).bit_count() for j in range(8)] for i in range(8)]
    return Program(
        name="Walsh-Hadamard",
        length=8,
        nodes=8,
        registers=("x", *signs),
        constants=signs,
        rounds=tuple(
            Round(
                receive={"other": reads("x", [node ^ 1 << bit for node in range(8)])},
                update={"x": word(f"sign{bit}") * word("x") + word("other")},
            )
            for bit in range(3)
        ),
        oracle=lambda x: x @ np.array(matrix, float),
        specification=Computes({"x": tuple(total([word(f"x[{j}]") * a for j, a in enumerate(row)]) for row in matrix)}),
    )


def fft() -> Program:
    """The discrete Fourier transform of eight complex numbers: bits of the index in reverse, then butterflies."""
    reverse = [int(f"{node:03b}"[::-1], 2) for node in range(8)]
    constants, rounds = {}, []
    rounds.append(
        Round(
            receive={"a": reads("re", reverse), "b": reads("im", reverse)},
            update={"re": word("a"), "im": word("b")},
        )
    )
    for bit in range(3):
        turns = [np.exp(-1j * np.pi * (node % (1 << bit)) / (1 << bit)) for node in range(8)]
        upper = [node >> bit & 1 for node in range(8)]
        # the lower node adds the upper one, turned; the upper node subtracts itself, turned
        own = [-turn if up else 1.0 for turn, up in zip(turns, upper, strict=True)]
        other = [1.0 if up else turn for turn, up in zip(turns, upper, strict=True)]
        for name, values in (("own", own), ("other", other)):
            constants[f"{name} re {bit}"] = tuple(float(np.real(value)) for value in values)
            constants[f"{name} im {bit}"] = tuple(float(np.imag(value)) for value in values)
        c, s, d, t = (word(f"{name} {part} {bit}") for name in ("own", "other") for part in ("re", "im"))
        re, im, a, b = word("re"), word("im"), word("a"), word("b")
        across = [node ^ 1 << bit for node in range(8)]
        rounds.append(
            Round(
                receive={"a": reads("re", across), "b": reads("im", across)},
                update={"re": c * re - s * im + d * a - t * b, "im": s * re + c * im + t * a + d * b},
            )
        )

    def oracle(x: np.ndarray) -> np.ndarray:
        found = np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=-1)
        return np.stack([found.real, found.imag], axis=-1)

    return Program(
        name="FFT",
        length=8,
        nodes=8,
        registers=("re", "im", *constants),
        inputs=("re", "im"),
        outputs=("re", "im"),
        constants=constants,
        rounds=tuple(rounds),
        oracle=oracle,
    )


def rule_110() -> Program:
    """Four steps of the elementary automaton 110 on a ring; a cell lives if its number is above 0."""
    left, right = [(node - 1) % 8 for node in range(8)], [(node + 1) % 8 for node in range(8)]
    own = word("x")
    step = Round(
        receive={"left": reads("x", left), "right": reads("x", right)},
        update={"x": either(own, word("right")) - relu(word("left") + own + word("right") - 2)},
    )

    def oracle(x: np.ndarray) -> np.ndarray:
        cells = (x > 0).astype(int)
        for _ in range(4):
            code = 4 * np.roll(cells, 1, axis=-1) + 2 * cells + np.roll(cells, -1, axis=-1)
            cells = 110 >> code & 1
        return cells.astype(float)

    return Program(
        name="rule 110",
        length=8,
        nodes=8,
        registers=("x",),
        grid=1,
        rounds=(Round(update={"x": positive(own)}), *(step,) * 4),
        oracle=oracle,
    )


def life() -> Program:
    """Two generations of Life on a torus of 4 × 4 cells; a cell lives if its number is above 0."""
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    tables = [[(node // 4 + i) % 4 * 4 + (node % 4 + j) % 4 for node in range(16)] for i, j in around]
    count = total([word(f"n{k}") for k in range(8)])
    step = Round(
        receive={f"n{k}": reads("x", table) for k, table in enumerate(tables)},
        update={"x": either(equal(count, 3), both(word("x"), equal(count, 2)))},
    )

    def oracle(x: np.ndarray) -> np.ndarray:
        cells = (x > 0).reshape(*x.shape[:-1], 4, 4)
        for _ in range(2):
            near = sum(np.roll(cells, (i, j), axis=(-2, -1)).astype(int) for i, j in around)
            cells = (near == 3) | (cells & (near == 2))
        return cells.reshape(x.shape).astype(float)

    return Program(
        name="Life",
        length=16,
        nodes=16,
        registers=("x",),
        grid=1,
        rounds=(Round(update={"x": positive(word("x"))}), step, step),
        oracle=oracle,
    )


def edit_distance(letters: int = 3) -> Program:
    """Between two words of three letters, written as whole numbers: a table of 4 × 4 nodes filled from its corner."""
    side = letters + 1
    places = [divmod(node, side) for node in range(side * side)]
    inner = [i > 0 and j > 0 for i, j in places]

    def at(di: int, dj: int) -> list[int]:
        return [
            (i - di) * side + j - dj if ok else node
            for node, ((i, j), ok) in enumerate(zip(places, inner, strict=True))
        ]

    compare = Round(
        receive={
            "letter": reads("first", [i - 1 if ok else None for (i, _), ok in zip(places, inner, strict=True)]),
            "against": reads("second", [j - 1 if ok else None for (_, j), ok in zip(places, inner, strict=True)]),
        },
        update={"price": 1 - equal(word("letter"), word("against"))},
        note="what it costs to put one letter in the other's place; at the border nothing",
    )
    fill = Round(
        receive={
            "above": reads("changes", at(1, 0)),
            "beside": reads("changes", at(0, 1)),
            "across": reads("changes", at(1, 1)),
        },
        update={
            "changes": minimum(
                minimum(word("above"), word("beside")) + 1,
                minimum(word("changes"), word("across") + word("price")),
            )
        },
    )
    hand_out = Round(
        receive={"last": reads("changes", [side * side - 1] * (side * side))}, update={"changes": word("last")}
    )
    return Program(
        name="edit distance",
        length=letters,
        nodes=side * side,
        registers=("first", "second", "changes", "price"),
        inputs=("first", "second"),
        outputs=("changes",),
        output_length=1,
        constants={"changes": tuple(float(i + j) for i, j in places)},
        grid=1,
        rounds=(compare, *(fill,) * (2 * letters - 1), hand_out),
        oracle=_edit_distance,
    )


def _edit_distance(x: np.ndarray) -> np.ndarray:
    found = np.empty(x.shape[:-2])
    for place in np.ndindex(found.shape):
        one, other = x[place][:, 0], x[place][:, 1]
        row = list(range(len(other) + 1))
        for i, letter in enumerate(one, 1):
            before, row = row, [i]
            for j, against in enumerate(other, 1):
                row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != against)))
        found[place] = row[-1]
    return found[..., None]


def histogram(numbers: int = 6, bins: int = 4) -> Program:
    """How often each of the numbers 0 … 3 occurs among six."""
    return Program(
        name="histogram",
        length=numbers,
        nodes=numbers,
        registers=("x", "bin"),
        output_length=bins,
        constants={"bin": tuple(map(float, range(numbers)))},
        grid=1,
        rounds=(
            Round(
                receive={f"x{k}": reads("x", [k] * numbers) for k in range(numbers)},
                update={"x": total([equal(word(f"x{k}"), word("bin")) for k in range(numbers)])},
            ),
        ),
        oracle=lambda x: (x[..., None, :] == np.arange(bins)[:, None]).sum(-1).astype(float),
        specification=Computes(
            {"x": tuple(total([equal(word(f"x[{k}]"), float(b)) for k in range(numbers)]) for b in range(bins))}
        ),
    )


def carry_look_ahead() -> Program:
    """The sum of two numbers of eight bits, lowest first, modulo 256: carries are a scan."""
    a, b = positive(word("a")), positive(word("b"))
    enter = Round(update={"made": both(a, b), "passed": either(a, b), "half": either(a, b) - both(a, b)})
    scan = [
        Round(
            receive={
                "made before": reads("made", [to_left(node, 1 << step) for node in range(8)]),
                "passed before": reads("passed", [to_left(node, 1 << step) for node in range(8)]),
            },
            update={
                "made": either(word("made"), both(word("passed"), word("made before"))),
                "passed": both(word("passed"), word("passed before")),
            },
        )
        for step in range(3)
    ]
    carry = word("carry")
    leave = Round(
        receive={"carry": reads("made", [to_left(node, 1) for node in range(8)])},
        update={"a": either(word("half"), carry) - both(word("half"), carry)},
    )

    def oracle(x: np.ndarray) -> np.ndarray:
        bits = 1 << np.arange(8)
        added = ((x > 0) * bits[:, None]).sum(axis=(-2, -1))
        return (added[..., None] >> np.arange(8) & 1).astype(float)

    return Program(
        name="carry look-ahead",
        length=8,
        nodes=8,
        registers=("a", "b", "made", "passed", "half"),
        inputs=("a", "b"),
        outputs=("a",),
        grid=1,
        rounds=(enter, *scan, leave),
        oracle=oracle,
    )


def argmax() -> Program:
    """Where the largest number is, the first of equal ones."""
    rounds = []
    for bit in range(3):
        better = positive(word("other") - word("x"))
        same = equal(word("other"), word("x"))
        nearer = positive(word("place") - word("there"))
        take = either(better, both(same, nearer))
        across = [node ^ 1 << bit for node in range(8)]
        rounds.append(
            Round(
                receive={"other": reads("x", across), "there": reads("place", across)},
                update={"x": maximum(word("x"), word("other")), "place": select(take, word("there"), word("place"))},
            )
        )
    return Program(
        name="argmax",
        length=8,
        nodes=8,
        registers=("x", "place"),
        outputs=("place",),
        output_length=1,
        constants={"place": tuple(map(float, range(8)))},
        grid=1,
        rounds=tuple(rounds),
        oracle=lambda x: np.argmax(x, axis=-1)[..., None].astype(float),
    )


def top_k(k: int = 3) -> Program:
    """The three largest numbers, the largest first."""
    sort = library.get("sort", 8)
    last = Round(receive={"mirrored": reads("x", list(range(7, -1, -1)))}, update={"x": word("mirrored")})
    return Program(
        name="top-k",
        length=8,
        nodes=8,
        registers=sort.registers,
        constants=sort.constants,
        output_length=k,
        rounds=(*sort.rounds, last),
        oracle=lambda x: -np.sort(-x, axis=-1)[..., :k],
        specification=Ranked(tuple(range(7, 7 - k, -1))),
    )


def string_match(letters: int = 3) -> Program:
    """Where a pattern of three letters begins in a text of eight: 1 at those places."""
    places = 8 - letters + 1
    hits = [equal(word(f"t{k}"), word(f"p{k}")) for k in range(letters)]
    return Program(
        name="string match",
        length=8,
        nodes=8,
        registers=("text", "pattern"),
        inputs=("text", "pattern"),
        outputs=("text",),
        output_length=places,
        grid=1,
        rounds=(
            Round(
                receive={
                    **{
                        f"t{k}": reads("text", [n + k if n + k < 8 else None for n in range(8)]) for k in range(letters)
                    },
                    **{f"p{k}": reads("pattern", [k] * 8) for k in range(letters)},
                },
                update={"text": relu(total(hits) - (letters - 1))},
            ),
        ),
        oracle=lambda x: np.stack(
            [np.all(x[..., n : n + letters, 0] == x[..., :letters, 1], axis=-1) for n in range(places)], axis=-1
        ).astype(float),
    )


def horner() -> Program:
    """A polynomial at eight points, by products of two numbers that both depend on the input."""
    coefficients = (0.5, -1.0, 0.25, 1.0)
    return Program(
        name="Horner",
        length=8,
        nodes=8,
        registers=("x", "y"),
        outputs=("y",),
        constants={"y": (coefficients[0],) * 8},
        rounds=tuple(Round(update={"y": word("y") * word("x") + c}) for c in coefficients[1:]),
        oracle=lambda x: np.polyval(coefficients, x),
    )


def majority() -> Program:
    """1 where more than half of the votes are above 0."""
    count = [
        Round(
            receive={"other": reads("x", [node ^ 1 << bit for node in range(8)])},
            update={"x": word("x") + word("other")},
        )
        for bit in range(3)
    ]
    vote = positive(word("x"))
    return Program(
        name="majority",
        length=8,
        nodes=8,
        registers=("x",),
        output_length=1,
        grid=1,
        rounds=(Round(update={"x": vote}), *count, Round(update={"x": positive(word("x") - 4)})),
        oracle=lambda x: ((x > 0).sum(-1, keepdims=True) > 4).astype(float),
        specification=Reduced(
            Semigroup(
                parts=("votes",),
                enter={"votes": vote},
                join={"votes": word("left votes") + word("right votes")},
                leave=(positive(word("votes") - 4),),
            )
        ),
    )


PROGRAMS: dict[str, Example] = {
    "matrix times vector": Example(matrix_vector(), 1000),
    "segmented scan": Example(segmented_scan(), {"x": 1000, "flag": 1}),
    "breadth-first search": Example(breadth_first(), 1),
    "Bellman-Ford": Example(bellman_ford(), 100),
    "odd-even sort": Example(odd_even_sort(), 1000),
    "Walsh-Hadamard": Example(walsh_hadamard(), 1000),
    "FFT": Example(fft(), 1000),
    "rule 110": Example(rule_110(), 1),
    "Life": Example(life(), 1),
    "edit distance": Example(edit_distance(), 9),
    "histogram": Example(histogram(), 9),
    "carry look-ahead": Example(carry_look_ahead(), 1),
    "argmax": Example(argmax(), 100),
    "top-k": Example(top_k(), 1000),
    "string match": Example(string_match(), 9),
    "Horner": Example(horner(), 1, fit=65),
    "majority": Example(majority(), 1),
}


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(PROGRAMS)
    for name in chosen:
        program, domain, fit = PROGRAMS[name]
        made = compile(program, domain=domain, fit=fit).verify()
        proof = made.prove()
        print(proof if len(chosen) == 1 else f"{name}: {made.certificate.holds=}, {proof.holds=}, {proof.bound=:.3g}")
