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
from fractions import Fraction as F  # noqa: N817
from typing import Any, NamedTuple

import numpy as np
import safetensors

try: import z3
except ImportError: sys.exit(print("the checker needs z3, which is not installed: pip install 'posattn[proof]'.") or 2)
real: Any = z3.RealVal
class Refused(Exception): """A step that does not stand, and why."""  # noqa: N818 (an answer)
class Known(NamedTuple):
    """What is known of a number for all inputs. All fractions here have a power of two below the line."""
    low: F = F(0)
    high: F = F(0)
    step: F | None = None  # it is a multiple of this; None: any number
    error: F = F(0)  # how far the model's is off: from the program's, or, within a layer, from exact sums
    of: frozenset = frozenset()  # a ReLU: the terms and weights of its sum
NIL, ZERO, BITS = F(0), Known(step=F(0)), [(Known(F(0), F(1), F(1)), real(bit)) for bit in (1, 0)]
size = lambda k: max(-k.low, k.high) + k.error  # of the model's number, at most
grain = lambda x: F(x.numerator & -x.numerator, x.denominator)  # the largest power of two that divides x
def common(steps: list[F | None]) -> F | None:  # the largest number of which all are multiples
    below = math.lcm(*(s.denominator for s in steps if s is not None))
    return None if None in steps else F(math.gcd(*(int(s * below) for s in steps if s is not None)), below)
def hull(*k: Known) -> Known:  # one of them
    return Known(min(x.low for x in k), max(x.high for x in k), common([x.step for x in k]), max(x.error for x in k))
def total(k: Any) -> Known:
    low, high, error = (sum((x[i] for x in k), NIL) for i in (0, 1, 3))
    return Known(low, high, common([x.step for x in k]), error)
def scaled(by: F, k: Known) -> Known:
    low, high = sorted((by * k.low, by * k.high))
    return Known(low, high, None if k.step is None else abs(by) * k.step, abs(by) * k.error)
class File:
    """The file's program, sizes and tensors, which fit each other, and the arithmetic of its dtype."""
    def __init__(self, path: str) -> None:
        with safetensors.safe_open(path, "np") as file:
            about, w = file.metadata(), {n.removesuffix("_weight"): file.get_tensor(n) for n in [*file.keys()]}
        program, compiled, sizes = (json.loads(about[name]) for name in ("program", "compiled", "architecture"))
        self.program, self.inputs, self.nodes, self.memory = program, program["inputs"], program["nodes"], {}
        self.one = lambda k: self.memory.setdefault(k, k)  # equal facts are one object
        self.domain, self.registers, self.heads = compiled["domain"], compiled["registers"], sizes["heads"]
        self.rounds, self.type = program["rounds"] or [{"receive": {}, "update": {}}], w["encoding"].dtype
        self.count, self.width, self.d = len(w["encoding"]), sizes["embed_dim"], sizes["encoding_dim"]
        n, d, q, m, nodes = len(self.rounds), self.d, self.heads * self.d, self.width, range(self.nodes)
        h, s, c = sizes["hidden_dim"], sizes["mlp_layers"] - 2, sizes["constants_dim"] or 0
        shapes = {
            "encoding": (self.count, d), "constants": (self.count, c), "encoder": (len(self.inputs) + c, m),
            "query": (n, d, q), "key": (n, d, q), "query_bias": (n, q), "key_bias": (n, q), "value": (n, m, m),
            "output": (n, m, m), "mlp_in": (n, 2 * m, h), "mlp_middle": (n, s, h, h), "mlp_out": (n, h, m),
            "decoder": (m, len(program["outputs"]))}
        if ({name: held.shape for name, held in w.items()} != {name: s for name, s in shapes.items() if 0 not in s}
                or sizes["length"] != max(program["length"], program.get("output_length") or 0) or m % self.heads
                or sizes["kind"] != "positional-exact" or self.count - self.nodes not in (0, 1)
                or len(set(self.registers)) != len(self.registers) or not 0 < program["length"] <= self.nodes):
            raise Refused("kind, sizes, tensors, registers or nodes are not those of the program's model")
        for round_, (slot, table) in ((r, item) for r in self.rounds for item in [*r["receive"].items()]):
            round_["receive"][slot] = [s and (nodes.index(s[0]), s[1]) for _, s in zip(nodes, table, strict=True)]
        if {str(t.dtype) for t in w.values()} not in ({"float32"}, {"float64"}): raise Refused("another dtype")
        if not all(np.isfinite(held).all() for held in w.values()): raise Refused("some weights are not finite")
        self.bits, self.never = (24, 128) if self.type == np.float32 else (53, 800)  # exp(−never) is 0
        self.unit, self.smallest = F(1, 1 << self.bits), F(float(np.finfo(self.type).smallest_subnormal))
        self.w = {name: w.get(name, np.zeros(shape)).astype(np.float64) for name, shape in shapes.items()}
    def held(self, x: float) -> F:
        if float(self.type.type(x)) != x: raise Refused(f"{x} is not a number of {self.type}")
        return F(x)
    def half(self, x: F) -> F:  # half a last place of numbers up to this size: of the power of two that is not less
        return max(self.unit * F(1 << (x.numerator - 1).bit_length(), x.denominator), self.smallest) / 2 if x else NIL
    def given(self, name: str) -> Known:  # an input
        domain, grid = (v.get(name, 0) if isinstance(v, dict) else v for v in (self.domain, self.program["grid"]))
        if not domain > 0 or (grid or 0) < 0 or float(np.float32(grid or 0)) != (grid or 0):  # 0.1, say
            raise Refused(f"nothing is known of inputs in ±{domain} on a grid of {grid}")
        if name in self.program["permutations"]: return self.one(Known(NIL, F(self.program["length"] - 1), F(1)))
        return self.one(Known(F(-domain), F(domain), self.held(grid) if grid else None))
def fits(file: File, layer: int, sizes: np.ndarray) -> np.ndarray:
    """No sum overflows, read or not (0·∞ is not a number): the largest size of every dimension, before and after."""
    top, part = np.append(np.abs(file.w["encoding"]).max(0), 1), lambda name: np.abs(file.w[name][layer])
    query, key = (top @ np.vstack([part(name), part(f"{name}_bias")]) for name in ("query", "key"))
    values = sizes @ part("value")
    reached = [query, key, np.array([query @ key]), values, np.append(sizes, values @ part("output"))]
    for matrix in (part("mlp_in"), *part("mlp_middle"), part("mlp_out")):
        reached.append(1.01 * reached[-1] @ matrix)  # 1 % is far more than what sums are off
    if not max(held.max() for held in reached) < np.finfo(file.type).max / 4: raise Refused("numbers can overflow")
    return reached[-1]
def times(file: File, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, bool]:
    """The exact product, and whether the model's is exact too, in any order of summation."""
    def whole(m: np.ndarray) -> tuple[np.ndarray, int]:  # m·2ˢ as whole numbers, with s as small as can be
        mantissa, exponent = np.frexp(m[m != 0])
        digits = (mantissa * 2.0**53).astype(np.int64)
        s = 53 - int((exponent + np.log2(digits & -digits)).min(initial=999))
        return np.ldexp(m, s), s
    (x, s), (y, t) = whole(a), whole(b)
    most, least = float(np.abs(x).max(0) @ np.abs(y).max(1)), F(2) ** (-s - t)
    if not most < 2**53 or least < F(1, 1 << 1000): raise Refused("logits have too many digits")
    return np.ldexp(x @ y, -s - t), most <= 2**file.bits and least >= file.smallest
def selected(file: File, layer: int, head: int) -> list[int]:
    """Step 1: the node that each node reads, if softmax in the file's dtype gives it exactly 1 and all others 0."""
    p, block = np.hstack([file.w["encoding"], np.ones((file.count, 1))]), slice(head * file.d, (head + 1) * file.d)
    query, key = (np.vstack([file.w[n][layer], file.w[f"{n}_bias"][layer]])[:, block] for n in ("query", "key"))
    if (known := (query.tobytes(), key.tobytes())) in file.memory: return file.memory[known]
    (q, one), (k, two) = times(file, p, query), times(file, p, key)
    logits, three = times(file, q, k.T)
    a, b = (np.abs(p) @ np.abs(m) for m in (query, key))  # if rounded, off by 3·(d + 2)·u of these sizes
    off = file.unit * F((a @ b.T).max()) + file.smallest * F(1 + a.sum(1).max() + b.sum(1).max())
    off = NIL if one and two and three else F(31, 10) * (file.d + 2) * off
    reads, rows, rest = logits.argmax(1), np.arange(file.count), logits.copy()
    rest[rows, reads] = -1e300
    for best, other in set(zip(logits[rows, reads].tolist(), rest.max(1).tolist(), strict=True)):
        apart = (F(best) - F(other)) * (1 - 8 * file.unit) - 8 * file.unit * abs(F(best)) - 2 * off
        if apart / F(math.isqrt(file.d << 80) + 1, 1 << 40) < file.never: raise Refused(f"head {head} mixes nodes")
    return file.memory.setdefault(known, reads.tolist())
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
        off = sum((file.half(size(t)) if grain(w) != abs(w) else file.smallest * (abs(w) < 1) for w, t in parts), NIL)
        for count in range(2, len(sizes) + 1):
            off += file.half((most if count == len(sizes) else sum(sizes[:count])) + off)
    off += whole.error
    return Known(whole.low, whole.high, None if off else whole.step, off)
class Kind:
    """Nodes that look alike: a formula for every variable, and the variable behind each input and each word."""
    def __init__(self, file: File, part: list, known: list[Known], which: dict) -> None:
        self.file, self.part, self.which, self.search, self.seen = file, part, which, z3.Solver(), []
        self.search.set("timeout", 20_000)  # milliseconds for one question; without an answer, it refuses
        self.decisions, self.decides = {}, False
        for n, k in enumerate(known):
            whole, off = real(k.step or 0) * z3.ToReal(z3.Int(f"k{n}")), z3.Real(f"e{n}")
            formula = real(k.low) if k.low == k.high else z3.Real(f"v{n}") if k.step is None else whole
            self.search.add(formula >= k.low, formula <= k.high, off <= k.error, off >= -k.error)
            term = Known(k.low - k.error, k.high + k.error, None if k.error else k.step)
            self.seen.append((formula + off if k.error else formula, term))
        self.words = {w: (ZERO, real(0)) if v is None else (known[v], self.seen[v][0]) for w, v in which.items()}
    def of(self, e: Any) -> tuple[Known, Any]:
        """An expression of the round: what is known of it, and its formula."""
        match e:
            case ["Word", name]: return self.words[name]
            case ["Constant", c]: return Known(self.file.held(c), F(c), abs(F(c))), real(F(c))
            case ["Sum", [a, ["Gate", ["Relu", ["Sum", [b, ["Scaled", -1.0, same]]]], _] as gate]] if same == a:
                k, f = self.of(a)  # a + gate(relu(b − a), …) is a, or the larger of the two
                return hull(k, self.of(b)[0])._replace(low=k.low), f + self.of(gate)[1]
            case ["Sum", terms]:
                known, formulas = zip(*map(self.of, terms), strict=True)
                return total(known), z3.Sum(formulas)
            case ["Scaled", c, of]: return self.of(["Product", ["Constant", c], of])
            case ["Relu", of]: return self.of(["Maximum", of, ["Constant", 0.0]])
            case ["Product", one, other]:
                (a, f), (b, g) = sorted(map(self.of, (one, other)), key=lambda k: k[0].low != k[0].high)
                if a.low == a.high and not a.error: return scaled(a.low, b), real(a.low) * g
            case ["Minimum" | "Maximum" as kind, one, other]:
                (a, f), (b, g) = self.of(one), self.of(other)
                if kind == "Minimum": return hull(a, b)._replace(high=min(a.high, b.high)), z3.If(f <= g, f, g)
                return hull(a, b)._replace(low=max(a.low, b.low)), z3.If(f >= g, f, g)
            case ["Exchange", a, b, up, _]: return self.of(["Select", up, 0, ["Maximum", a, b], ["Minimum", a, b]])
            case ["Gate", of, shut]: return self.either(self.of(shut), lambda x: x > 0, (ZERO, real(0)), self.of(of))
            case ["Select", bit, _, a, b]: return self.either(self.of(bit), lambda x: x == 1, self.of(a), self.of(b))
            case ["Positive", of, grid]: return self.either(self.of(of), lambda x: x > F(grid) / 2, *BITS)
            case ["Equal", one, other, grid]:
                apart, half = self.of(["Sum", [one, ["Scaled", -1.0, other]]]), F(grid) / 2
                return self.either(apart, lambda x: z3.And(x < half, -x < half), *BITS)
        raise Refused(f"{e[0]} is not piecewise linear here")
    def either(self, by: tuple[Known, Any], test: Any, one: tuple, zero: tuple) -> tuple[Known, Any]:
        if by[0].error: raise Refused("rounding can turn a decision around")
        self.decides, found = True, z3.simplify(test(by[1]))
        if z3.is_true(found) or z3.is_false(found): return one if z3.is_true(found) else zero
        self.decisions[found.sexpr()] = found
        return hull(one[0], zero[0]), z3.If(found, one[1], zero[1])
    def run(self, reach: F, below: Any = None) -> tuple[Any, Known]:
        """The MLP, as a formula and as the model computes it. `below`: whether a sum stays below minus its error."""
        (value, output, *hidden, last), width, heads = self.part, self.file.width, self.file.heads
        held = lambda place: self.seen[self.which[place]] if place in self.which else (real(0), ZERO)
        own, *read = ([held((h, d)) for d in range(width)] for h in range(-1, heads))
        def add(column: dict[int, F], state: list, most: F | None = None) -> tuple[Any, Known]:
            formula = z3.Sum([real(w) * state[row][0] for row, w in column.items()] or [real(0)])
            return formula, rounded(self.file, column, [t for _, t in state], most)
        arrived = [add(column, read[number * heads // width]) for number, column in enumerate(value)]
        state = own + [add(column, arrived) for column in output]
        for matrix in hidden:
            held, state = state, []
            for column, (f, t) in ((column, add(column, held)) for column in matrix):
                of = frozenset((row, w) for row, w in column.items() if size(held[row][1]))  # what the ReLU is of
                off = t.high + t.error <= 0 or (t.low < 0 and below is not None and below(f, t.error))
                after = ZERO if off else Known(max(t.low, NIL), max(t.high, NIL), t.step, t.error, of)
                state.append((z3.If(f > 0, f, real(0)), after))
        return add(last[0], state, reach)
    def after(self, update: list) -> Known:
        """Steps 2 and 4: what is known of the register then; refused unless the MLP is the local function."""
        known, wanted = self.of(update)
        formula, plain = self.run(size(known))
        if self.search.check(formula != wanted) != z3.unsat: raise Refused("the MLP may be different")
        own, sides = NIL, [(d, z3.Not(d)) for d in list(self.decisions.values())[:6] if plain.error]
        for fall in (f for f in itertools.product(*sides) if self.search.check(*f) != z3.unsat):  # ways they can fall
            below = lambda f, e: self.decides and self.search.check(f > -e, *fall) == z3.unsat  # noqa: B023
            own = max(own, self.run(size(known), below)[1].error if plain.error else NIL)
        return known._replace(error=known.error + own)
def part_of(file: File, layer: int, register: int) -> list[list[dict[int, F]]]:
    """Values, outputs, the MLP's matrices, as columns {row: weight}; empty where nothing leads to the register."""
    value, output, first, last = (file.w[name][layer] for name in ("value", "output", "mlp_in", "mlp_out"))
    mlp = [first, *file.w["mlp_middle"][layer], last[:, [register]]]
    for number in range(len(mlp) - 1, 0, -1):
        mlp[number - 1] = mlp[number - 1] * mlp[number].any(1)
    output = output * mlp[0][file.width :].any(1)
    return [[{int(r): F(c[r]) for r in c.nonzero()[0]} for c in m.T] for m in (value * output.any(1), output, *mlp)]
def first(file: File, name: str) -> list[Known]:
    """What the encoder makes of a register at every node."""
    program, inputs, column = file.program, file.inputs, file.w["encoder"][:, file.registers.index(name)]
    used = column.nonzero()[0].tolist()
    rows = [inputs.index(name)] if name in inputs else [row for row in used[:1] if row >= len(inputs)]
    if used != rows or any(column[used] != 1): raise Refused(f"the encoder does not fill '{name}' as the program does")
    if name in inputs: return [file.given(name) if i < program["length"] else file.one(ZERO) for i in range(file.count)]
    stored = file.w["constants"][:, used[0] - len(inputs)].tolist() if used else [0.0] * file.count
    meant = program["constants"].get(name, [0.0] * file.nodes)
    wanted = (meant if name in program["registers"] else stored[: file.nodes]) + [0.0] * (file.count - file.nodes)
    if stored != [*map(file.held, wanted)]: raise Refused(f"'{name}' does not start as the program says")
    return [file.one(Known(F(x), F(x), abs(F(x)))) for x in stored]
def words_in(e: Any) -> set[str]:
    return set() if not isinstance(e, list) else {e[1]} if e[:1] == ["Word"] else set().union(*map(words_in, e))
def becomes(file: File, part: list, name: str, round_: dict, state: dict, reads: list) -> list[Known]:
    """A register after a layer. Nodes that look alike are looked at once; one fact is kept for all that are not 0."""
    own = {(-1, row) for column in part[2] for row in column if row < file.width}
    places = sorted(own | {(n * file.heads // file.width, row) for n, column in enumerate(part[0]) for row in column})
    if any(row >= len(file.registers) or file.registers[row] not in state for _, row in places):
        raise Refused(f"'{name}' is computed from something that the program does not use")
    update, receive, found = round_["update"].get(name, ["Word", name]), round_["receive"], []
    words, network = sorted(words_in(update)), repr((part, update))
    for node in range(file.count):
        inside = node < file.nodes  # behind the program's nodes, one holds 0 and is read for nothing
        seen = [(node if h < 0 else reads[h][node], file.registers[row]) for h, row in places]
        seen += [receive[w][node] if w in receive else (node, w) for w in words if inside]
        distinct = list(dict.fromkeys(filter(None, seen)))
        which, facts = [distinct.index(at) if at else None for at in seen], [state[r][at] for at, r in distinct]
        key = (network, inside, *which, *map(id, facts))  # equal facts are one object
        if key not in file.memory:
            kind = Kind(file, part, facts, dict(zip([*places, *words], which, strict=False)))
            file.memory[key] = file.one(kind.after(update if inside else ["Constant", 0.0]))
        found.append(file.memory[key])
    if any(map(size, found[file.nodes :])): raise Refused(f"'{name}' is not 0 at the node that is read for nothing")
    if found == state.get(name): return found  # constants that are carried on
    every = file.one(hull(*{id(fact): fact for fact in found[: file.nodes]}.values()))
    return [every] * file.nodes + [file.one(ZERO)] * (file.count - file.nodes)
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
            for name in state: sizes[file.registers.index(name)] = max(float(size(k)) for k in set(state[name]))
            sizes = fits(file, layer, sizes)
            reads = [selected(file, layer, head) if head in heads else [] for head in range(file.heads)]
            state = {name: becomes(file, parts[name], name, round_, state, reads) for name in kept}
        except Refused as reason:
            raise Refused(f"layer {layer}: {reason}") from None
    rows = [file.registers.index(name) for name in file.program["outputs"]]
    if (file.w["decoder"] != np.eye(file.width)[:, rows]).any(): raise Refused("the decoder changes the outputs")
    return max(fact.error for name in file.program["outputs"] for fact in state[name])
def main(path: str) -> int:
    try:
        code, bound = 0, float(check(File(path))) * (1 + 2**-50)
        said = "1 stands: attention is selection\n2 stands: each layer is its round\n3 not rechecked: the specification"
        said += f"\n4 stands: |model(x) − program(x)| ≤ {bound} for every input"
    except Refused as reason: code, said = 1, f"REFUSED: {reason}"
    except Exception as error:  # whatever a file may hold
        code, said = 2, f"'{path}' is not a compiled model that can be read: {type(error).__name__}: {error}"
    print(said)
    return code
if __name__ == "__main__": sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else print("usage: checker FILE") or 2)
