"""An independent check of a compiled model's file: steps 1, 2 and 4 of its proof, done again from what the file holds.

    python -m posattn.compile.proof.checker FILE

Nothing of the compiler is used or believed; trusted are safetensors, NumPy, z3, Python's fractions and these lines. One
fact is kept per register, for all nodes together, and numbers that the dtype does not hold exactly are not dealt with:
then it refuses, though a proof may stand. Exit code 0: the steps stand; 1: one does not; 2: not a compiled model.
"""
# fmt: off
import itertools
import json
import math
import sys
from fractions import Fraction as F
from typing import Any, NamedTuple

import numpy as np
import safetensors
import z3

real, NIL = z3.RealVal, F(0)

class Refused(Exception):  # noqa: N818 (an answer)
    """A step that does not stand, and why."""

class Known(NamedTuple):
    """What is known of a number for all inputs. All fractions here have a power of two below the line."""
    low: F
    high: F
    step: F | None = None  # it is a multiple of this; None: any number
    error: F = NIL  # how far the model's is off: from the program's, or, within a layer, from exact sums
    of: frozenset = frozenset()  # a sum: its terms and their weights

ZERO, BIT = Known(NIL, NIL, NIL), Known(NIL, F(1), F(1))
size = lambda k: max(-k.low, k.high) + k.error  # of the model's number, at most
grain = lambda x: F(x.numerator & -x.numerator, x.denominator)  # the largest power of two that divides x

def common(steps: list[F | None]) -> F | None:  # the largest number of which all are multiples
    below = math.lcm(*(s.denominator for s in steps if s is not None))
    return None if None in steps else F(math.gcd(*(int(s * below) for s in steps if s is not None)), below)

def hull(*k: Known) -> Known:  # one of them
    return Known(min(x.low for x in k), max(x.high for x in k), common([x.step for x in k]), max(x.error for x in k))

def total(k: list[Known]) -> Known:
    low, high, error = (sum((x[i] for x in k), NIL) for i in (0, 1, 3))
    return Known(low, high, common([x.step for x in k]), error)

def scaled(by: F, k: Known) -> Known:
    low, high = sorted((by * k.low, by * k.high))
    return Known(low, high, None if k.step is None else abs(by) * k.step, abs(by) * k.error)

class File:
    """The file's program, sizes and tensors, which fit each other, and the arithmetic of its dtype."""
    def __init__(self, path: str) -> None:
        with safetensors.safe_open(path, "np") as file:
            about, w = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        program, self.about, sizes = (json.loads(about[name]) for name in ("program", "compiled", "architecture"))
        self.program, self.registers, self.nodes, self.inputs = program, self.about["registers"], program["nodes"], program["inputs"]
        self.type, self.count, self.width, self.heads = w["encoding"].dtype, len(w["encoding"]), sizes["embed_dim"], sizes["heads"]
        self.rounds, self.memory = program["rounds"] or [{"receive": {}, "update": {}}], {}
        n, d, m, h, c = len(self.rounds), sizes["encoding_dim"], self.width, sizes["hidden_dim"], sizes["constants_dim"] or 0
        shapes = {
            "encoding": (self.count, d), "constants": (self.count, c), "encoder": (len(self.inputs) + c, m), "value": (n, m, m),
            "query": (n, d, self.heads * d), "key": (n, d, self.heads * d), "query_bias": (n, self.heads * d),
            "key_bias": (n, self.heads * d), "output": (n, m, m), "mlp_in": (n, 2 * m, h), "mlp_out": (n, h, m),
            "mlp_middle": (n, sizes["mlp_layers"] - 2, h, h), "decoder": (m, len(program["outputs"]))}
        extra = sizes["length"] - max(program["length"], program.get("output_length") or 0)
        if (sizes["kind"] != "positional-exact" or self.count - self.nodes not in (0, 1) or extra or m % self.heads
                or {name.removesuffix("_weight"): t.shape for name, t in w.items()} != {k: s for k, s in shapes.items() if 0 not in s}
                or len(set(self.registers)) != len(self.registers) or not 0 < program["length"] <= self.nodes):
            raise Refused("kind, sizes, tensors, registers or nodes are not those of the program's model")
        for round_ in self.rounds:
            round_["receive"] = {w: [s and tuple(s) for s in table] for w, table in round_["receive"].items()}
            for table in round_["receive"].values():
                if len(table) != self.nodes or any(s and s[0] not in range(self.nodes) for s in table):
                    raise Refused("the program reads from nodes that it does not have")
        if self.type not in (np.float32, np.float64) or any(t.dtype != self.type or not np.isfinite(t).all() for t in w.values()):
            raise Refused("the tensors are not all float32, or all float64, or some numbers are not finite")
        self.bits, self.never = (24, 128) if self.type == np.float32 else (53, 800)  # exp(−never) is 0
        self.unit, self.smallest = F(1, 1 << self.bits), F(float(np.finfo(self.type).smallest_subnormal))
        self.w = {name: np.zeros(shape) for name, shape in shapes.items()}
        self.w |= {name.removesuffix("_weight"): held.astype(np.float64) for name, held in w.items()}

    def held(self, x: float) -> F:
        if float(self.type.type(x)) != x:
            raise Refused(f"{x} is not a number of {self.type}")
        return F(x)

    def half(self, x: F) -> F:  # half a last place of numbers up to this size: of the power of two that is not less
        return max(self.unit * F(1 << (x.numerator - 1).bit_length(), x.denominator), self.smallest) / 2 if x else NIL

    def given(self, name: str) -> Known:  # an input
        domain, grid = (v.get(name, 0) if isinstance(v, dict) else v for v in (self.about["domain"], self.program["grid"]))
        if not domain > 0:
            raise Refused(f"no input lies in ±{domain}")
        anything = Known(F(-domain), F(domain), self.held(grid) if grid else None)
        return Known(NIL, F(self.program["length"] - 1), F(1)) if name in self.program["permutations"] else anything

def fits(file: File, layer: int, sizes: np.ndarray) -> np.ndarray:
    """No sum overflows, read or not (0·∞ is not a number): the largest size of every dimension, before and after."""
    top, part = np.append(np.abs(file.w["encoding"]).max(0), 1), lambda name: np.abs(file.w[name][layer])
    query, key = (top @ np.vstack([part(name), part(f"{name}_bias")]) for name in ("query", "key"))
    values = sizes @ part("value")
    reached = [query, key, np.array([query @ key]), values, np.append(sizes, values @ part("output"))]
    for matrix in (part("mlp_in"), *part("mlp_middle"), part("mlp_out")):
        reached.append(1.01 * reached[-1] @ matrix)  # 1 % is far more than what sums are off
    if not max(held.max() for held in reached) < np.finfo(file.type).max / 4:
        raise Refused("numbers can overflow")
    return reached[-1]

def times(file: File, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product; refused where the model's sums could be rounded, in some order. Whole numbers times a power of two."""
    def whole(m: np.ndarray) -> tuple[np.ndarray, int]:  # m·2ˢ as whole numbers, with s as small as can be
        mantissa, exponent = np.frexp(m[m != 0])
        digits = (mantissa * 2.0**53).astype(np.int64)
        s = 53 - int((exponent + np.log2(digits & -digits)).min(initial=53))
        return np.ldexp(m, s), s
    (x, s), (y, t) = whole(a), whole(b)
    if not np.abs(x).max(0) @ np.abs(y).max(1) < 2**file.bits or F(2) ** (-s - t) < file.smallest:
        raise Refused("logits are not exact in the model's dtype")
    return np.ldexp(x @ y, -s - t)

def selected(file: File, layer: int, head: int) -> list[int]:
    """Step 1: the node that each node reads, if softmax in the file's dtype gives it exactly 1 and all others 0."""
    d = file.w["encoding"].shape[1]
    p, block = np.hstack([file.w["encoding"], np.ones((file.count, 1))]), slice(head * d, head * d + d)
    query, key = (np.vstack([file.w[n][layer], file.w[f"{n}_bias"][layer]])[:, block] for n in ("query", "key"))
    if (known := (query.tobytes(), key.tobytes())) not in file.memory:
        logits = times(file, times(file, p, query), times(file, p, key).T)
        reads, rows, rest = logits.argmax(1), np.arange(file.count), logits.copy()
        rest[rows, reads] = -1e300
        for best, other in set(zip(logits[rows, reads].tolist(), rest.max(1).tolist(), strict=True)):
            apart = (F(best) - F(other)) * (1 - 8 * file.unit) - 8 * file.unit * abs(F(best))
            if apart / F(math.isqrt(d << 80) + 1, 1 << 40) < file.never:
                raise Refused(f"head {head}: logits are too close for softmax to select one node")
        file.memory[known] = reads.tolist()
    return file.memory[known]

def rounded(file: File, column: dict[int, F], terms: list[Known], reach: F | None = None) -> Known:
    """A sum in any order: off by half a last place of its partial sums, the largest ones in the worst order."""
    present = {row: w for row, w in column.items() if size(terms[row])}
    left, parts = [(w, terms[row]) for row, w in present.items()], []
    while left:
        w, t = left.pop()
        pair = next((p for p in left if t.of and p[0] == -w and p[1].of == frozenset((n, -v) for n, v in t.of)), None)
        if pair:  # w·relu(x) − w·relu(−x) is w·x; where x is off, the one that should be 0 may not be
            left.remove(pair)
            error = t.error + pair[1].error + 2 * max(t.error, pair[1].error)
            t = Known(-pair[1].high, t.high, common([t.step, pair[1].step]), error)
        parts.append((w, scaled(w, t)))
    whole, sizes, off = total([t for _, t in parts]), sorted((size(t) for _, t in parts), reverse=True), NIL
    fine = grain(whole.step or NIL)
    if whole.error or fine < file.smallest or sum(sizes) > fine * (1 << file.bits):
        most = size(whole) if reach is None else min(size(whole), reach + whole.error)
        lossy = [t for w, t in parts if grain(w) != abs(w)]
        off = sum((file.half(size(t)) for t in lossy), NIL)
        for count in range(2, len(sizes) + 1):
            off += file.half((most if count == len(sizes) else sum(sizes[:count])) + off)
        off += len(parts) * file.smallest if lossy or any(abs(w) < 1 for w, _ in parts) else NIL
    error = whole.error + off
    return Known(whole.low, whole.high, None if error else whole.step, error, frozenset(present.items()))

class Kind:
    """Nodes that look alike: a formula for every variable, and the variable behind each input and each word."""
    def __init__(self, file: File, part: list, known: list[Known], inputs: dict, words: dict) -> None:
        self.file, self.part, self.inputs, self.search, self.seen = file, part, inputs, z3.Solver(), []
        self.decisions, self.decides = {}, False
        for n, k in enumerate(known):
            whole, off = real(k.step or 0) * z3.ToReal(z3.Int(f"k{n}")), z3.Real(f"e{n}")
            formula = real(k.low) if k.low == k.high else z3.Real(f"v{n}") if k.step is None else whole
            self.search.add(formula >= k.low, formula <= k.high, off <= k.error, off >= -k.error)
            term = Known(k.low - k.error, k.high + k.error, None if k.error else k.step)
            self.seen.append((formula + off if k.error else formula, term))
        self.words = {w: (ZERO, real(0)) if v is None else (known[v], self.seen[v][0]) for w, v in words.items()}

    def of(self, e: list) -> tuple[Known, Any]:
        """An expression of the round: what is known of it, and its formula."""
        bits = (BIT, real(1)), (BIT, real(0))
        match e:
            case ["Word", name]: return self.words[name]
            case ["Constant", c]: return Known(self.file.held(c), F(c), abs(F(c))), real(F(c))
            case ["Sum", terms]: return self.sum(terms, [self.of(term) for term in terms])
            case ["Scaled", c, of]: return self.of(["Product", ["Constant", c], of])
            case ["Relu", of]: return self.of(["Maximum", of, ["Constant", 0.0]])
            case ["Product", one, other]:
                (a, f), (b, g) = sorted(map(self.of, (one, other)), key=lambda k: k[0].low != k[0].high)
                if a.low == a.high and not a.error: return scaled(a.low, b), real(a.low) * g
            case ["Minimum" | "Maximum" as kind, one, other]:
                (a, f), (b, g) = self.of(one), self.of(other)
                if kind == "Minimum": return hull(a, b)._replace(high=min(a.high, b.high)), z3.If(f <= g, f, g)
                return hull(a, b)._replace(low=max(a.low, b.low)), z3.If(f >= g, f, g)
            case ["Exchange", own, other, upper, _]:
                return self.of(["Select", upper, None, ["Maximum", own, other], ["Minimum", own, other]])
            case ["Gate", of, shut]: return self.either(self.of(shut), lambda x: x > 0, (ZERO, real(0)), self.of(of))
            case ["Select", bit, _, a, b]: return self.either(self.of(bit), lambda x: x == 1, self.of(a), self.of(b))
            case ["Positive", of, grid]: return self.either(self.of(of), lambda x: x > F(grid) / 2, *bits)
            case ["Equal", one, other, grid]:
                apart, half = self.of(["Sum", [one, ["Scaled", -1.0, other]]]), F(grid) / 2
                return self.either(apart, lambda x: z3.And(x < half, -x < half), *bits)
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
        known = total([k for k, _ in parts])
        match terms:  # a + gate(relu(b − a), …) is a, or the larger of the two
            case [a, ["Gate", ["Relu", ["Sum", [b, ["Scaled", -1.0, same]]]], _]] if same == a:
                known = hull(parts[0][0], self.of(b)[0])._replace(low=parts[0][0].low)
        return known, z3.Sum([f for _, f in parts])

    def run(self, reach: F, below: Any) -> tuple[Any, Known]:
        """The MLP, as a formula and as the model computes it. `below`: whether a sum stays below minus its error."""
        (value, output, *hidden, last), width, heads = self.part, self.file.width, self.file.heads
        held = {place: self.seen[v] for place, v in self.inputs.items()}
        own, *read = ([held.get((h, d), (real(0), ZERO)) for d in range(width)] for h in range(-1, heads))
        def add(column: dict[int, F], state: list, most: F | None = None) -> tuple[Any, Known]:
            formula = z3.Sum([real(w) * state[row][0] for row, w in column.items()] or [real(0)])
            return formula, rounded(self.file, column, [t for _, t in state], most)
        arrived = [add(column, read[number * heads // width]) for number, column in enumerate(value)]
        state = own + [add(column, arrived) for column in output]
        for matrix in hidden:
            sums, state = [add(column, state) for column in matrix], []
            for f, t in sums:
                off = t.high + t.error <= 0 or (t.low < 0 and below(f, t.error))
                after = ZERO if off else t._replace(low=max(t.low, NIL), high=max(t.high, NIL))
                state.append((z3.If(f > 0, f, real(0)), after))
        return add(last[0], state, reach)

    def after(self, update: list) -> Known:
        """Steps 2 and 4: what is known of the register then; refused unless the MLP is the local function."""
        known, wanted = self.of(update)
        if self.search.check(self.run(size(known), lambda *_: False)[0] != wanted) != z3.unsat:
            raise Refused("the MLP is not the local function")
        own, sides = NIL, [(d, z3.Not(d)) for d in list(self.decisions.values())[:6]]
        for fall in itertools.product(*sides):  # every way in which decisions can fall
            if self.search.check(*fall) != z3.unsat:
                below = lambda f, e: self.decides and self.search.check(f > -e, *fall) == z3.unsat  # noqa: B023
                own = max(own, self.run(size(known), below)[1].error)
        return known._replace(error=known.error + own)

def part_of(file: File, layer: int, register: int) -> list[list[dict[int, F]]]:
    """Values, outputs, then the MLP's matrices, as columns {row: weight}; empty where nothing leads to the register."""
    value, output, first, last = (file.w[name][layer] for name in ("value", "output", "mlp_in", "mlp_out"))
    mlp = [first, *file.w["mlp_middle"][layer], last[:, [register]]]
    for number in range(len(mlp) - 1, 0, -1):
        mlp[number - 1] = mlp[number - 1] * mlp[number].any(1)
    output = output * mlp[0][file.width :].any(1)
    return [[{int(r): F(float(c[r])) for r in c.nonzero()[0]} for c in m.T] for m in (value * output.any(1), output, *mlp)]

def first(file: File, name: str) -> list[Known]:
    """What the encoder makes of a register at every node."""
    program, inputs, column = file.program, file.inputs, file.w["encoder"][:, file.registers.index(name)]
    used = column.nonzero()[0].tolist()
    rows = [inputs.index(name)] if name in inputs else [row for row in used[:1] if row >= len(inputs)]
    if used != rows or any(column[row] != 1 for row in used):
        raise Refused(f"the encoder does not fill register '{name}' as the program does")
    if name in inputs:
        return [file.given(name)] * program["length"] + [ZERO] * (file.count - program["length"])
    stored = file.w["constants"][:, used[0] - len(inputs)].tolist() if used else [0.0] * file.count
    wanted = program["constants"].get(name, [0.0] * file.nodes) if name in program["registers"] else stored[: file.nodes]
    if stored != [*map(file.held, wanted), *[0.0] * (file.count - file.nodes)]:
        raise Refused(f"register '{name}' does not start as the program says")
    known = {x: Known(F(x), F(x), abs(F(x))) for x in stored}
    return [known[x] for x in stored]

def words_in(e: Any) -> set[str]:
    return set() if not isinstance(e, list) else {e[1]} if e[:1] == ["Word"] else set().union(*map(words_in, e))

def becomes(file: File, part: list, name: str, round_: dict, state: dict, reads: list) -> list[Known]:
    """A register after a layer. Nodes that look alike are looked at once; one fact is kept for all that are not 0."""
    own = {(-1, row) for column in part[2] for row in column if row < file.width}
    places = sorted(own | {(n * file.heads // file.width, row) for n, column in enumerate(part[0]) for row in column})
    if any(row >= len(file.registers) or file.registers[row] not in state for _, row in places):
        raise Refused(f"'{name}' is computed from something that the program does not use")
    update, receive, found, near = round_["update"].get(name, ["Word", name]), round_["receive"], [], {}
    words, network = sorted(words_in(update)), repr((part, update))
    for node in range(file.count):
        inside = node < file.nodes  # behind the program's nodes, one holds 0 and is read for nothing
        seen = [(node if h < 0 else reads[h][node], file.registers[row]) for h, row in places]
        seen += [receive[w][node] if w in receive else (node, w) for w in words if inside]
        distinct = list(dict.fromkeys(filter(None, seen)))
        which, facts = tuple(distinct.index(at) if at else None for at in seen), [state[r][at] for at, r in distinct]
        look = (inside, which, *map(id, facts))
        if look not in near:
            key = (network, inside, which, *facts)
            if key not in file.memory:
                inputs, arrived = zip(places, which, strict=False), zip(words, which[len(places) :], strict=False)
                kind = Kind(file, part, facts, dict(inputs), dict(arrived))
                file.memory[key] = kind.after(update if inside else ["Constant", 0.0])
            near[look] = file.memory[key]
        found.append(near[look])
    if any(map(size, found[file.nodes :])):
        raise Refused(f"'{name}' is not 0 at the node that is read for nothing")
    if found == state.get(name):  # constants that are carried on
        return state[name]
    every = [fact for (inside, *_), fact in near.items() if inside]
    return [hull(*every)] * file.nodes + [ZERO] * (file.count - file.nodes)

def check(file: File) -> F:
    """Steps 1, 2 and 4 for all layers; how far an output can be off."""
    live, added = [set(file.program["outputs"])], set(file.registers) - set(file.program["registers"])
    for round_ in reversed(file.rounds):
        update, receive = round_["update"], round_["receive"]
        words = set().union(live[0] - set(update), *(words_in(e) for n, e in update.items() if n in live[0]))
        read = {s[1] for w in words if w in receive for s in receive[w] if s}
        live.insert(0, {w for w in words if w not in receive} | read)
    state = {name: first(file, name) for name in file.registers if name in live[0] | added}
    given = np.append([float(size(file.given(name))) for name in file.inputs], np.abs(file.w["constants"]).max(0))
    sizes = given @ np.abs(file.w["encoder"])
    for layer, round_ in enumerate(file.rounds):
        try:
            parts = {name: part_of(file, layer, place) for place, name in enumerate(file.registers)}
            kept = [n for n in parts if n in live[layer + 1] or (n in added and n in state and any(parts[n][-1]))]
            heads = {n * file.heads // file.width for name in kept for n, column in enumerate(parts[name][0]) if column}
            for place, name in enumerate(file.registers):
                sizes[place] = float(max(map(size, set(state[name])))) if name in state else sizes[place]
            sizes = fits(file, layer, sizes)
            reads = [selected(file, layer, head) if head in heads else [] for head in range(file.heads)]
            state = {name: becomes(file, parts[name], name, round_, state, reads) for name in kept}
        except Refused as reason:
            raise Refused(f"layer {layer}: {reason}") from None
    rows = [file.registers.index(name) for name in file.program["outputs"]]
    if not np.array_equal(file.w["decoder"], np.eye(file.width)[:, rows]):
        raise Refused("the decoder does not give the output registers as they are")
    return max(fact.error for name in file.program["outputs"] for fact in state[name])

def main(path: str) -> int:
    try:
        bound = float(check(File(path))) * (1 + 2**-50)
        print("1 stands: attention is selection\n2 stands: each layer is its round\n3 not rechecked: the specification")
        print(f"4 stands: |model(x) − program(x)| ≤ {bound} for every input")
    except Refused as reason:
        print(f"REFUSED: {reason}")
        return 1
    except Exception as error:  # whatever a file may hold
        print(f"'{path}' is not a compiled model that this checker can read: {type(error).__name__}: {error}")
        return 2
    return 0

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [""]))
