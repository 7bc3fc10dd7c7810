"""An independent check of a compiled model's file: steps 1, 2 and 4 of its proof, done again from what the file holds.

    python -m posattn.compile.proof.checker FILE

Nothing of the compiler is used or believed; trusted are safetensors, NumPy, z3, Python's fractions and these lines. One
fact is kept per register, for all nodes together, and numbers that the dtype does not hold exactly are not dealt with:
then it refuses, though a proof may stand. Exit code 0: the steps stand; 1: one does not; 2: not a compiled model.
"""

# fmt: off
import functools
import itertools
import json
import math
import sys
from fractions import Fraction as F
from typing import Any, NamedTuple

import numpy as np
import safetensors
import z3

FORMATS = {"float32": (24, F(1, 1 << 149), 128), "float64": (53, F(1, 1 << 1074), 800)}
NIL, ONE = F(0), F(1)

class Refused(Exception):  # noqa: N818 (an answer)
    """A step that does not stand, and why."""

class Known(NamedTuple):
    """What is known of a value for all inputs."""
    low: F
    high: F
    step: F | None = None  # it is a multiple of this; None: any number
    error: F = NIL  # how far the model's is off

    @property
    def reach(self) -> F:
        return max(abs(self.low), abs(self.high)) + self.error

class Term(NamedTuple):
    """A number of the model: the range of exact sums, its error, the power of two that divides it, a ReLU's sum."""
    low: F = NIL
    high: F = NIL
    error: F = NIL
    grain: F = NIL
    of: frozenset = frozenset()

ZERO, BIT = Known(NIL, NIL, NIL), Known(NIL, ONE, ONE)

def power(x: F) -> F:  # the least power of two that is at least x; 0 for 0
    p = F(2) ** (x.numerator.bit_length() - x.denominator.bit_length() - 1) if x else NIL
    while p < x:
        p *= 2
    return p

def grain(x: F) -> F:  # the largest power of two that divides x; 0 where there is none
    return F(x.numerator & -x.numerator, x.denominator) if x.denominator & (x.denominator - 1) == 0 else NIL

def common(*steps: F | None) -> F | None:  # the largest number of which all are multiples
    below = math.lcm(*(s.denominator for s in steps if s is not None))
    return None if None in steps else F(math.gcd(*(int(s * below) for s in steps if s is not None)), below)

def hull(a: Known, b: Known) -> Known:
    return Known(min(a.low, b.low), max(a.high, b.high), common(a.step, b.step), max(a.error, b.error))

def real(x: F) -> Any:
    return z3.RealVal(f"{x.numerator}/{x.denominator}")

class File:
    def __init__(self, path: str) -> None:
        with safetensors.safe_open(path, "np") as file:
            about, w = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        self.program, self.about, sizes = (json.loads(about[name]) for name in ("program", "compiled", "architecture"))
        self.heads, self.registers, self.nodes = sizes["heads"], self.about["registers"], self.program["nodes"]
        self.rounds = self.program["rounds"] or [{"receive": {}, "update": {}}]
        self.type, self.count, self.width = w["encoding"].dtype, len(w["encoding"]), w["value_weight"].shape[1]
        self.bits, self.smallest, self.never = FORMATS[str(self.type)]
        self.unit, self.largest = F(1, 1 << self.bits), F(float(np.finfo(self.type).max))
        for name, held in w.items():
            if held.dtype != self.type or not np.isfinite(held).all():
                raise Refused(f"'{name}' holds numbers of another dtype, or some that are not finite")
        self.w = {name: held.astype(np.float64) for name, held in w.items()}
        if len(self.rounds) != len(w["value_weight"]) or self.count - self.nodes not in (0, 1):
            raise Refused("layers and nodes are not the program's")

    def held(self, x: float) -> F:
        if float(self.type.type(x)) != x:
            raise Refused(f"{x} is not a number of {self.type}")
        return F(x)

    def half(self, size: F) -> F:  # half a last place of numbers up to this size
        return max(self.unit * power(size) / 2, self.smallest / 2) if size else NIL

def whole(a: np.ndarray) -> tuple[np.ndarray, int]:  # a·2ˢ as whole numbers, with s as small as can be
    mantissa, exponent = np.frexp(a[a != 0])
    digits = (mantissa * 2.0**53).astype(np.int64)
    s = 53 - int((exponent + np.log2(digits & -digits)).min(initial=53))
    return np.ldexp(a, s), s

def times(a: np.ndarray, b: np.ndarray, bits: int) -> tuple[np.ndarray, F]:
    """The product and its largest Σ|terms|; refused where sums of whole numbers could be rounded, in some order."""
    (x, s), (y, t) = whole(a), whole(b)
    most = float(np.abs(x).max(0) @ np.abs(y).max(1))
    if not most < 2**bits:
        raise Refused("logits are not exact in the model's dtype")
    return np.ldexp(x @ y, -s - t), F(most) * F(2) ** (-s - t)

def selected(file: File, layer: int, head: int) -> np.ndarray:
    """Step 1: the node that each node reads, if softmax in the file's dtype gives it exactly 1 and all others 0."""
    d = file.w["encoding"].shape[1]
    p, block = np.hstack([file.w["encoding"], np.ones((file.count, 1))]), slice(head * d, head * d + d)
    held = ((file.w[f"{name}_weight"][layer][:, block], file.w[f"{name}_bias"][layer][block]) for name in ("query", "key"))
    query, key = (times(p, np.vstack(pair), file.bits)[0] for pair in held)
    logits, largest = times(query, key.T, file.bits)
    reads, rows, rest = logits.argmax(1), np.arange(file.count), logits.copy()
    rest[rows, reads] = -1e300
    for best, other in set(zip(logits[rows, reads].tolist(), rest.max(1).tolist(), strict=True)):
        apart = (F(best) - F(other)) * (1 - 8 * file.unit) - 8 * file.unit * abs(F(best))
        if apart / F(math.isqrt(d << 80) + 1, 1 << 40) < file.never or largest > file.largest / 4:
            raise Refused(f"head {head}: logits are too close for softmax to select one node")
    return reads

class Local:
    """Expressions of a round at one kind of node: what is known of them, and the formula."""
    def __init__(self, file: File, words: dict[str, tuple[Known, Any]]) -> None:
        self.file, self.words, self.decisions, self.decides = file, words, {}, False

    def of(self, e: list) -> tuple[Known, Any]:
        match e:
            case ["Word", name]: return self.words[name]
            case ["Constant", c]: return Known(self.file.held(c), F(c), abs(F(c))), real(F(c))
            case ["Sum", terms]: return self.sum(terms, [self.of(term) for term in terms])
            case ["Scaled", c, of]: return self.scaled(self.file.held(c), *self.of(of))
            case ["Relu", of]: return self.of(["Maximum", of, ["Constant", 0.0]])
            case ["Product", one, other]:
                (a, _), b = sorted(map(self.of, (one, other)), key=lambda k: k[0].low != k[0].high)
                if a.low == a.high and not a.error:
                    return self.scaled(a.low, *b)
            case ["Minimum" | "Maximum" as kind, one, other]:
                (a, f), (b, g), both = self.of(one), self.of(other), hull(self.of(one)[0], self.of(other)[0])
                if kind == "Minimum":
                    return both._replace(high=min(a.high, b.high)), z3.If(f <= g, f, g)
                return both._replace(low=max(a.low, b.low)), z3.If(f >= g, f, g)
            case ["Exchange", own, other, upper, _]:
                return self.of(["Select", upper, None, ["Maximum", own, other], ["Minimum", own, other]])
            case ["Gate", of, shut]: return self.either(self.of(shut), lambda x: x > 0, (ZERO, real(NIL)), self.of(of))
            case ["Select", bit, _, one, zero]: return self.either(self.of(bit), lambda x: x == 1, self.of(one), self.of(zero))
            case ["Positive", of, grid]:
                return self.either(self.of(of), lambda x: x > real(F(grid) / 2), (BIT, real(ONE)), (BIT, real(NIL)))
            case ["Equal", one, other, grid]:
                apart, half = self.of(["Sum", [one, ["Scaled", -1.0, other]]]), real(F(grid) / 2)
                return self.either(apart, lambda x: z3.And(x < half, -x < half), (BIT, real(ONE)), (BIT, real(NIL)))
        raise Refused(f"{e[0]} is not piecewise linear here")

    def either(self, by: tuple[Known, Any], test: Any, one: tuple, zero: tuple) -> tuple[Known, Any]:
        if by[0].error:
            raise Refused("rounding can turn a decision around")
        self.decides, found = True, z3.simplify(test(by[1]))
        if z3.is_true(found) or z3.is_false(found):
            return one if z3.is_true(found) else zero
        self.decisions[found.sexpr()] = found
        return hull(one[0], zero[0]), z3.If(found, one[1], zero[1])

    def sum(self, terms: list, parts: list[tuple[Known, Any]]) -> tuple[Known, Any]:
        known = [k for k, _ in parts]
        low, high, error = (sum((k[i] for k in known), NIL) for i in (0, 1, 3))
        total = Known(low, high, common(*(k.step for k in known)), error)
        match terms:  # a + gate(relu(b − a), …) is a, or the larger of the two
            case [a, ["Gate", ["Relu", ["Sum", [b, ["Scaled", -1.0, same]]]], _]] if same == a:
                total = hull(known[0], self.of(b)[0])._replace(low=known[0].low)
        return total, z3.Sum([f for _, f in parts])

    def scaled(self, by: F, k: Known, formula: Any) -> tuple[Known, Any]:
        low, high = sorted((by * k.low, by * k.high))
        return Known(low, high, None if k.step is None else abs(by) * k.step, abs(by) * k.error), real(by) * formula

def rounded(file: File, column: dict[int, F], terms: list[Term], reach: F | None) -> Term:
    """A sum in any order: off by half a last place of its partial sums, the largest ones in the worst order."""
    present = {row: w for row, w in column.items() if any(terms[row][:3])}
    left, parts = [(w, terms[row]) for row, w in present.items()], []
    while left:
        w, t = left.pop()
        pair = next((p for p in left if t.of and p[0] == -w and p[1].of == frozenset((n, -v) for n, v in t.of)), None)
        if pair:  # w·relu(x) − w·relu(−x) is w·x; where x is off, the one that should be 0 may not be
            left.remove(pair)
            error = t.error + pair[1].error + 2 * max(t.error, pair[1].error)
            t = Term(-pair[1].high, t.high, error, min(t.grain, pair[1].grain))
        parts.append((*sorted((w * t.low, w * t.high)), abs(w) * t.error, grain(w) * t.grain, w))
    low, high, off = (sum((p[k] for p in parts), NIL) for k in (0, 1, 2))
    sizes, fine = sorted((max(-p[0], p[1]) + p[2] for p in parts), reverse=True), min((p[3] for p in parts), default=NIL)
    if off or fine < file.smallest or sum(sizes) > fine * (1 << file.bits):
        total = min(max(-low, high), max(-low, high) if reach is None else reach) + off
        lossy = [p for p in parts if grain(p[4]) != abs(p[4])]
        rounds = sum((file.half(max(-p[0], p[1]) + p[2]) for p in lossy), NIL)
        for count in range(2, len(sizes) + 1):
            rounds += file.half((total if count == len(sizes) else sum(sizes[:count])) + rounds)
        off += rounds + (len(parts) * file.smallest if lossy or any(abs(p[4]) < 1 for p in parts) else NIL)
    return Term(low, high, off, NIL if off else fine, frozenset(present.items()))

class Kind:
    """Nodes that look alike: a formula and a Term for every variable, and the variable behind each input and word."""
    def __init__(self, file: File, part: list, known: list[tuple[Known, bool]], inputs: dict, words: dict) -> None:
        self.file, self.part, self.inputs, self.search, self.seen = file, part, inputs, z3.Solver(), []
        for n, (k, constant) in enumerate(known):
            formula, off = z3.Real(f"v{n}"), z3.Real(f"e{n}")
            if constant or (k.low == k.high and not k.error):
                formula = real(k.low)
            elif k.step is not None:
                formula = real(k.step) * z3.ToReal(z3.Int(f"k{n}"))
            self.search.add(formula >= real(k.low), formula <= real(k.high), off <= real(k.error), off >= real(-k.error))
            fine = grain(k.low) if k.low == k.high else grain(k.step or NIL)
            term = Term(k.low - k.error, k.high + k.error, NIL, NIL if k.error else fine)
            self.seen.append((formula + off if k.error else formula, term))
        self.local = Local(file, {w: (ZERO, real(NIL)) if v is None else (known[v][0], self.seen[v][0]) for w, v in words.items()})

    def run(self, reach: F, below: Any) -> tuple[Any, Term]:
        """The MLP, as a formula and as the model computes it. `below`: whether a sum stays below minus its error."""
        (value, output, *hidden, last), width, heads = self.part, self.file.width, self.file.heads
        held = {place: self.seen[v] for place, v in self.inputs.items()}
        own, *read = ([held.get((h, d), (real(NIL), Term())) for d in range(width)] for h in range(-1, heads))
        def add(column: dict[int, F], state: list, most: F | None = None) -> tuple[Any, Term]:
            formula = z3.Sum([real(w) * state[row][0] for row, w in column.items()] or [real(NIL)])
            return formula, rounded(self.file, column, [t for _, t in state], most)
        arrived = [add(column, read[number * heads // width]) for number, column in enumerate(value)]
        state = own + [add(column, arrived) for column in output]
        for matrix in hidden:
            sums, state = [add(column, state) for column in matrix], []
            for f, t in sums:
                off = t.high + t.error <= 0 or (t.low < 0 and below(f, t.error))
                state.append((z3.If(f > 0, f, real(NIL)), Term() if off else t._replace(low=max(t.low, NIL), high=max(t.high, NIL))))
        return add(last[0], state, reach)

    def after(self, update: list) -> Known:
        """Steps 2 and 4: what is known of the register then; refused unless the MLP is the local function."""
        known, wanted = self.local.of(update)
        if self.search.check(self.run(known.reach, lambda *_: False)[0] != wanted) != z3.unsat:
            raise Refused("the MLP is not the local function")
        own, sides = NIL, [(d, z3.Not(d)) for d in list(self.local.decisions.values())[:6]]
        for fall in itertools.product(*sides):  # every way in which decisions can fall
            if self.search.check(*fall) != z3.unsat:
                below = lambda f, e: self.local.decides and self.search.check(f > real(-e), *fall) == z3.unsat  # noqa: B023, E731
                own = max(own, self.run(known.reach, below)[1].error)
        return known._replace(error=known.error + own)

def part_of(file: File, layer: int, register: int) -> list[list[dict[int, F]]]:
    """Values, outputs, then the MLP's matrices, as columns {row: weight}; empty where nothing leads to the register."""
    value, output, first, last = (file.w[f"{name}_weight"][layer] for name in ("value", "output", "mlp_in", "mlp_out"))
    mlp = [first, *file.w.get("mlp_middle_weight", {layer: ()})[layer], last[:, [register]]]
    for number in range(len(mlp) - 1, 0, -1):
        mlp[number - 1] = mlp[number - 1] * mlp[number].any(1)
    output = output * mlp[0][file.width :].any(1)
    return [[{int(r): F(float(c[r])) for r in c.nonzero()[0]} for c in m.T] for m in (value * output.any(1), output, *mlp)]

def first(file: File, name: str) -> list[tuple[Known, bool]]:
    """What the encoder makes of a register at every node, and whether that is a constant."""
    program, column, inputs = file.program, file.w["encoder_weight"][:, file.registers.index(name)], file.program["inputs"]
    used = column.nonzero()[0].tolist()
    rows = [inputs.index(name)] if name in inputs else [row for row in used[:1] if row >= len(inputs)]
    if used != rows or any(column[row] != 1 for row in used):
        raise Refused(f"the encoder does not fill register '{name}' as the program does")
    if name in inputs:
        domain, grid = (v.get(name, 0) if isinstance(v, dict) else v for v in (file.about["domain"], program["grid"]))
        held = Known(F(-domain), F(domain), file.held(grid) if grid else None)
        held = Known(NIL, F(program["length"] - 1), ONE) if name in program["permutations"] else held
        return [(held if i < program["length"] else ZERO, False) for i in range(file.count)]
    stored = file.w["constants"][:, used[0] - len(inputs)].tolist() if used else [0.0] * file.count
    wanted = program["constants"].get(name, [0.0] * file.nodes) if name in program["registers"] else stored[: file.nodes]
    if stored != [*map(file.held, wanted), *[0.0] * (file.count - file.nodes)]:
        raise Refused(f"register '{name}' does not start as the program says")
    return [(Known(F(x), F(x), abs(F(x))), bool(used)) for x in stored]

def words_in(e: Any) -> set[str]:
    return set() if not isinstance(e, list) else {e[1]} if e[:1] == ["Word"] else set().union(*map(words_in, e))

def becomes(file: File, part: list, name: str, round_: dict, state: dict, reads: list, memory: dict) -> list[tuple[Known, bool]]:
    """A register after a layer. Nodes that look alike are looked at once; one fact is kept for all that are not 0."""
    places = {(-1, row) for column in part[2] for row in column if row < file.width}
    places |= {(n * file.heads // file.width, row) for n, column in enumerate(part[0]) for row in column}
    if any(row >= len(file.registers) or file.registers[row] not in state for _, row in places):
        raise Refused(f"'{name}' is computed from something that the program does not use")
    found, receive, network = [], round_["receive"], repr(part)
    for node in range(file.count):
        update = round_["update"].get(name, ["Word", name]) if node < file.nodes else ["Constant", 0.0]
        words = {w: tuple(receive[w][node] or ()) if w in receive else (node, w) for w in sorted(words_in(update))}
        inputs = {(h, row): (node if h < 0 else reads[h][node], file.registers[row]) for h, row in sorted(places)}
        seen = list(dict.fromkeys((*inputs.values(), *filter(None, words.values()))))
        facts = tuple(state[register][at] for at, register in seen)
        which = tuple(seen.index(at) for at in inputs.values()), tuple(seen.index(at) if at else None for at in words.values())
        key = (network, node < file.nodes and name, facts, which, json.dumps(update))
        if key not in memory:
            kind = Kind(file, part, facts, dict(zip(inputs, which[0], strict=True)), dict(zip(words, which[1], strict=True)))
            memory[key] = kind.after(update)
        found.append(memory[key])
    if any(fact.reach for fact in found[file.nodes :]):
        raise Refused(f"'{name}' is not 0 at the node that is read for nothing")
    if name not in round_["update"] and all(constant for _, constant in state[name]):
        return state[name]
    return [(functools.reduce(hull, set(found[: file.nodes])) if n < file.nodes else ZERO, False) for n in range(file.count)]

def check(file: File) -> F:
    """Steps 1, 2 and 4 for all layers; how far an output can be off."""
    live, memory, added = [set(file.program["outputs"])], {}, set(file.registers) - set(file.program["registers"])
    for round_ in reversed(file.rounds):
        update, receive = round_["update"], round_["receive"]
        words = set().union(live[0] - set(update), *(words_in(e) for n, e in update.items() if n in live[0]))
        live.insert(0, {w for w in words if w not in receive} | {s[1] for w in words if w in receive for s in receive[w] if s})
    state = {name: first(file, name) for name in file.registers if name in live[0] | added}
    for layer, round_ in enumerate(file.rounds):
        try:
            parts = {name: part_of(file, layer, place) for place, name in enumerate(file.registers)}
            kept = [n for n in parts if n in live[layer + 1] or (n in added and n in state and any(parts[n][-1]))]
            heads = {n * file.heads // file.width for name in kept for n, column in enumerate(parts[name][0]) if column}
            reads = [selected(file, layer, head).tolist() if head in heads else [] for head in range(file.heads)]
            state = {name: becomes(file, parts[name], name, round_, state, reads, memory) for name in kept}
        except Refused as reason:
            raise Refused(f"layer {layer}: {reason}") from None
    rows = [file.registers.index(name) for name in file.program["outputs"]]
    if not np.array_equal(file.w["decoder_weight"], np.eye(file.width)[:, rows]):
        raise Refused("the decoder does not give the output registers as they are")
    return max(fact.error for name in file.program["outputs"] for fact, _ in state[name])

def main(path: str) -> int:
    try:
        bound = f"{float(check(File(path))) * (1 + 2**-50):.6g}"
        print("1 stands: attention is selection\n2 stands: each layer is its round\n3 not rechecked: the specification")
        print(f"4 stands: |model(x) − program(x)| ≤ {bound} for every input")
    except Refused as reason:
        print(f"REFUSED: {reason}")
        return 1
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, safetensors.SafetensorError) as error:
        print(f"'{path}' is not a compiled model that this checker can read: {type(error).__name__}: {error}")
        return 2
    return 0

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [""]))
