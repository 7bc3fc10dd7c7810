"""Random expressions and programs, each with the same thing in plain Python: one number at a time, no arrays."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from posattn.compile.expressions import (
    Expression,
    absolute,
    distance,
    equal,
    exchange,
    gate,
    maximum,
    minimum,
    positive,
    relu,
    select,
    word,
)
from posattn.compile.program import Program
from posattn.compile.rounds import Round

Words = Mapping[str, float]


class Tree(NamedTuple):
    """An expression, and what it is worth for given words."""

    expression: Expression
    value: Callable[[Words], float]


def leaf(name: str) -> Tree:
    return Tree(word(name), lambda w: w[name])


def _both(build: Callable[..., Expression], value: Callable[..., float]) -> Callable[..., Tree]:
    def tree(*parts: Tree) -> Tree:
        return Tree(
            build(*(part.expression for part in parts)),
            lambda w: value(*(part.value(w) for part in parts)),
        )

    return tree


add = _both(lambda a, b: a + b, lambda a, b: a + b)
subtract = _both(lambda a, b: a - b, lambda a, b: a - b)
smaller = _both(minimum, min)
larger = _both(maximum, max)
magnitude = _both(absolute, lambda a: abs(a))
rectified = _both(relu, lambda a: max(a, 0.0))
gated = _both(lambda a, s: gate(a, shut=s), lambda a, s: 0.0 if s else a)
selected = _both(lambda b, a, c: select(b, a, c), lambda b, a, c: a if b else c)
swapped = _both(lambda a, b, u: exchange(a, b, upper=u), lambda a, b, u: max(a, b) if u else min(a, b))
above = _both(lambda a: positive(a), lambda a: float(a > 0))
same = _both(lambda a, b: equal(a, b), lambda a, b: float(a == b))
apart = _both(lambda a, b, c: gate(a, shut=distance(b, c)), lambda a, b, c: a if b == c else 0.0)
complement = _both(lambda b: 1 - b, lambda b: 1 - b)


def scaled(tree: Tree, factor: float) -> Tree:
    return Tree(factor * tree.expression, lambda w: factor * tree.value(w))


def moved(tree: Tree, number: float) -> Tree:
    return Tree(number - tree.expression, lambda w: number - tree.value(w))


def helped(kind: str, bit: str, one: Tree, other: Tree) -> Tree:
    """With the complement of the bit from a register, `not` + its name."""
    b, n = word(bit), word(f"not {bit}")
    if kind == "select":
        return Tree(
            select(b, one.expression, other.expression, unless=n),
            lambda w: one.value(w) if w[bit] else other.value(w),
        )
    return Tree(
        exchange(one.expression, other.expression, upper=b, lower=n),
        lambda w: (max if w[bit] else min)(one.value(w), other.value(w)),
    )


Spec = tuple[Any, ...]
KINDS: dict[str, Callable[..., Tree]] = {
    "word": leaf,
    "constant": lambda number: Tree(0 * word("x") + number, lambda w: float(number)),
    "add": add,
    "subtract": subtract,
    "scale": scaled,
    "move": moved,
    "min": smaller,
    "max": larger,
    "abs": magnitude,
    "relu": rectified,
    "gate": gated,
    "gate of relu": lambda a, s: gated(rectified(a), s),
    "select": selected,
    "exchange": swapped,
    "helped": helped,
    "positive": above,
    "equal": same,
    "apart": apart,
    "not": complement,
}


def grown(spec: Spec) -> Tree:
    """The tree that a strategy has drawn as nested tuples: annotations are checked at random, which may not happen
    while Hypothesis draws."""
    kind, *parts = spec
    return KINDS[kind](*(grown(part) if isinstance(part, tuple) else part for part in parts))


def trees(words: Sequence[str], bits: Sequence[str], *, whole: bool, leaves: int = 8) -> st.SearchStrategy[Spec]:
    """Numbers made of words and bits. `whole`: words are whole numbers, so that they can be compared."""

    def node(kind: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Spec]:
        return st.tuples(st.just(kind), *parts)

    given_bits = node("word", st.sampled_from(bits))
    plain_bits = given_bits | node("not", given_bits)

    def extended(part: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
        computed = node("positive", part) | node("equal", part, part)
        every_bit = plain_bits | computed | node("not", computed) if whole else plain_bits
        kinds = [
            node("add", part, part),
            node("subtract", part, part),
            node("scale", part, st.sampled_from([-2.0, -1.0, 0.0, 2.0, 3.0])),
            node("move", part, st.integers(-2, 2).map(float)),
            node("min", part, part),
            node("max", part, part),
            node("abs", part),
            node("relu", part),
            node("gate", part, every_bit),
            node("gate of relu", part, every_bit),
            node("select", every_bit, part, part),
            node("exchange", part, part, every_bit),
            node("helped", st.sampled_from(["select", "exchange"]), st.sampled_from(bits), part, part),
        ]
        return st.one_of(*kinds, *([computed, node("apart", part, part, part)] if whole else []))

    leaf_ = node("word", st.sampled_from(words)) | given_bits | node("constant", st.integers(-3, 3))
    return st.recursive(leaf_, extended, max_leaves=leaves)


class Case(NamedTuple):
    """A program, and for every round what each register becomes."""

    program: Program
    updates: tuple[Mapping[str, Tree], ...]


#: Kinds of trees that have two numbers, one number, a number and a bit, and so on; n: a number, b: a bit.
SHAPES = {
    "add": "nn", "subtract": "nn", "min": "nn", "max": "nn", "abs": "n", "relu": "n", "gate": "nb",
    "gate of relu": "nb", "select": "bnn", "exchange": "nnb", "positive": "n", "equal": "nn", "apart": "nnn",
}  # fmt: skip


def _any_tree(pick: random.Random, words: Sequence[str], bit: str, depth: int) -> Spec:
    if depth == 0 or pick.random() < 0.2:
        return ("constant", pick.randint(-3, 3)) if pick.random() < 0.1 else ("word", pick.choice(words))
    chance = pick.random()
    if chance < 0.1:
        return ("scale", _any_tree(pick, words, bit, depth - 1), pick.choice([-2.0, -1.0, 3.0]))
    if chance < 0.2:
        parts = (_any_tree(pick, words, bit, depth - 1) for _ in range(2))
        return ("helped", pick.choice(["select", "exchange"]), bit, *parts)
    kind = pick.choice(list(SHAPES))
    return (kind, *(_any_tree(pick, words, bit, depth - 1) if part == "n" else _any_bit(pick, words, bit, depth - 1)
                    for part in SHAPES[kind]))  # fmt: skip


def _any_bit(pick: random.Random, words: Sequence[str], bit: str, depth: int) -> Spec:
    held = ("word", bit) if pick.random() < 0.5 else ("positive", _any_tree(pick, words, bit, depth))
    return ("not", held) if pick.random() < 0.5 else held


def any_case(seed: int, *, nodes: int | None = None, length: int | None = None) -> Case:
    """Any tables (nothing, several registers to a slot), any updates, registers that nobody reads, constants."""
    pick = random.Random(seed)
    nodes = pick.randint(1, 5) if nodes is None else nodes
    length = pick.randint(1, nodes) if length is None else length
    written = ["x", "y", "bit", "not bit", "c"]
    rounds = []
    for _ in range(pick.choice([0, 1, 2, 2, 3, 3])):
        slots = [f"slot{k}" for k in range(pick.randint(0, 3))]
        some = pick.sample(written, pick.randint(1, len(written)))
        tables = {
            slot: tuple(
                None if pick.random() < 0.2 else (pick.randrange(nodes), pick.choice(some)) for _ in range(nodes)
            )
            for slot in slots
        }
        names = pick.sample(["x", "y", "z"], pick.randint(0, 3))
        rounds.append((tables, {name: _any_tree(pick, [*written, *slots, *slots], "bit", 2) for name in names}))
        written += [name for name in names if name not in written]
    bits, numbers = [[pick.randint(low, high) for _ in range(nodes)] for low, high in ((0, 1), (-3, 3))]
    return case_of((nodes, length, bits, numbers, rounds, pick.choices(["x", "y", *written[5:]], k=2)))


def case_of(spec: Spec) -> Case:
    """The program with these rounds: tables, and specs of what registers become."""
    nodes, length, bits, numbers, rounds, outputs = spec
    updates = [{name: grown(tree) for name, tree in update.items()} for _, update in rounds]
    program = Program(
        name="random",
        length=length,
        nodes=nodes,
        registers=("x", "y", "z", "bit", "not bit", "c"),
        rounds=tuple(
            Round(receive=tables, update={name: tree.expression for name, tree in update.items()})
            for (tables, _), update in zip(rounds, updates, strict=True)
        ),
        inputs=("x", "y"),
        outputs=tuple(outputs),
        grid=1.0,
        constants={
            "bit": tuple(map(float, bits)),
            "not bit": tuple(float(1 - bit) for bit in bits),
            "c": tuple(map(float, numbers)),
        },
    )
    return Case(program, tuple(updates))


def whole_inputs(program: Program, seed: int, samples: int = 5, bound: int = 4) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.integers(-bound, bound + 1, (samples, program.length, len(program.inputs))).astype(np.float64)


def simulated(case: Case, x: np.ndarray) -> np.ndarray:
    """Node by node, sample by sample, in plain Python."""
    program = case.program
    return np.array([_one(case, sample) for sample in x]).reshape(len(x), program.length, len(program.outputs))


def _one(case: Case, sample: np.ndarray) -> list[list[float]]:
    program = case.program
    state = [dict.fromkeys(program.registers, 0.0) for _ in range(program.nodes)]
    for node in range(program.nodes):
        for name, values in program.constants.items():
            state[node][name] = values[node]
        if node < program.length:
            for column, name in enumerate(program.inputs):
                state[node][name] = float(sample[node, column])
    for round_, update in zip(program.rounds, case.updates, strict=True):
        before = [dict(held) for held in state]
        for node in range(program.nodes):
            words = dict(before[node])
            for slot, table in round_.receive.items():
                source = table[node]
                words[slot] = 0.0 if source is None else before[source[0]][source[1]]
            for name, tree in update.items():
                state[node][name] = tree.value(words)
    return [[state[node][name] for name in program.outputs] for node in range(program.length)]
