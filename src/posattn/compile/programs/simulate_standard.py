"""A standard Transformer as a program with static communication (Back de Luca et al. 2025, Remark 5.1).

N nodes of the Transformer become N row nodes and N² pair nodes. In a layer, node (i, j) gets the states of i and j,
and with them computes the logits and the values of j. The row learns the maximum over j, then the sums of
exp(logit − maximum) and of its products with the values; row node i then divides, and goes through the MLP:

    3 + 2⌈log₂ N⌉ rounds for attention, one for each linear map of the MLP: O(L·log N) rounds on O(N²) nodes

exp, product and reciprocal stand outside the language: the interpreter runs them exactly, a compiled model fits them.
"""

from collections.abc import Sequence

import numpy as np
import torch

from posattn.compile.expressions import Expression, Scaled, Sum, Word, call, maximum, minimum, product, relu, word
from posattn.compile.program import Program
from posattn.compile.programs.networks import doublings
from posattn.compile.rounds import Round, reads
from posattn.errors import kind_of, require
from posattn.nn import StandardTransformer
from posattn.nn.rotary import BASE


def simulate(model: StandardTransformer) -> Program:
    """The program that computes what the model computes, on inputs of its full length."""
    require(
        isinstance(model, StandardTransformer),
        f"{kind_of(model)} is given: what is simulated is a StandardTransformer.",
    )
    sizes = model.architecture
    p = {
        name: tensor[0].double().cpu().numpy()
        for name, tensor in model.replica().items()
        for tensor in [tensor.detach()]
    }
    n, embed, heads = sizes.nodes, sizes.embed_dim, sizes.heads
    total = n + n * n
    state = [f"x{e}" for e in range(embed)]
    beside = [
        name for name in ("constants", "encoding") if name in p and (name == "constants" or sizes.append_encoding)
    ]
    columns = np.concatenate([p[name] for name in beside], axis=1) if beside else np.zeros((n, 0))
    constants = {f"p{c}": (*map(float, columns[:, c]), *[0.0] * (n * n)) for c in range(columns.shape[1])}
    turns = _turns(n, sizes.query_width) if sizes.rotary else {}
    inputs = tuple(f"in{k}" for k in range(sizes.in_dim))
    first = _linear([*inputs, *constants], p["encoder_weight"], p.get("encoder_bias"))
    rounds = [Round(update=dict(zip(state, first, strict=True)), note="encoder")]
    for index in range(sizes.depth):
        rounds += _layer(model, p, index, state, n)
    outputs = tuple(f"out{k}" for k in range(sizes.out_dim))
    last = _linear(state, p["decoder_weight"], p.get("decoder_bias"))
    rounds.append(Round(update=dict(zip(outputs, last, strict=True)), note="decoder"))
    hidden = [f"h{level}.{u}" for level in range(sizes.mlp_layers - 1) for u in range(sizes.hidden_dim)]
    per_head = [f"{what}{h}" for what in ("logit", "most", "weight") for h in range(heads)]
    values = [f"value{e}" for e in range(embed)]
    attended = [f"read{e}" for e in range(embed)]
    return Program(
        name="standard Transformer",
        length=sizes.length,
        nodes=total,
        registers=(*inputs, *constants, *turns, *state, *per_head, *values, *attended, *hidden, *outputs),
        rounds=tuple(rounds),
        inputs=inputs,
        outputs=outputs,
        constants=constants | turns,
        pad=None,
        oracle=lambda x: _answer(model, x),
    )


def _answer(model: StandardTransformer, x: np.ndarray) -> np.ndarray:
    held = next(model.parameters())
    batch = torch.from_numpy(np.asarray(x, np.float64)).to(held).reshape(len(x), model.architecture.length, -1)
    with torch.no_grad():
        return model(batch).double().cpu().numpy()


def _linear(names: Sequence[str], weight: np.ndarray, bias: np.ndarray | None) -> list[Expression]:
    """x·W + b, one expression per column."""
    words = [Word(name) for name in names]
    found = []
    for column in range(weight.shape[1]):
        terms = tuple(Scaled(float(weight[row, column]), held) for row, held in enumerate(words))
        total: Expression = Sum(terms)
        found.append(total if bias is None else total + float(bias[column]))
    return found


def _product(query: list[Expression], key: list[Expression]) -> Expression:
    """⟨q, k⟩."""
    return Sum(tuple(call(product, q, k) for q, k in zip(query, key, strict=True)))


def _turns(n: int, width: int) -> dict[str, tuple[float, ...]]:
    """Registers cos0, sin0, cos1, …: at pair node (i, j), of the angle (j − i)/10000^(2k/width); 0 at row nodes."""
    apart = (np.arange(n)[None, :] - np.arange(n)[:, None]).ravel()
    found: dict[str, tuple[float, ...]] = {}
    for k in range(width // 2):
        angle = apart * BASE ** (-2 * k / width)
        found[f"cos{k}"] = (*[0.0] * n, *map(float, np.cos(angle)))
        found[f"sin{k}"] = (*[0.0] * n, *map(float, np.sin(angle)))
    return found


def _turned_product(query: list[Expression], key: list[Expression]) -> Expression:
    """⟨R_i·q, R_j·k⟩ = ⟨q, R_{j−i}·k⟩: Σ cos·(q₀k₀ + q₁k₁) + sin·(q₁k₀ − q₀k₁) over pairs of dimensions."""
    terms = []
    for pair in range(len(query) // 2):
        (q0, q1), (k0, k1) = query[2 * pair : 2 * pair + 2], key[2 * pair : 2 * pair + 2]
        along = call(product, q0, k0) + call(product, q1, k1)
        across = call(product, q1, k0) - call(product, q0, k1)
        terms += [call(product, word(f"cos{pair}"), along), call(product, word(f"sin{pair}"), across)]
    return Sum(tuple(terms))


def _layer(model: StandardTransformer, p: dict[str, np.ndarray], index: int, state: list[str], n: int) -> list[Round]:
    """The rounds of one layer: logits and values, softmax over every row, then the MLP."""
    sizes = model.architecture
    softmax = _softmax(n, sizes.heads, sizes.embed_dim)
    return [_logits(model, p, index, state, n), *softmax, *_mlp(sizes.mlp_layers, p, index, state)]


def _pair(n: int, i: int, j: int) -> int:
    """Node (i, j), behind the n row nodes."""
    return n + i * n + j


def _logits(model: StandardTransformer, p: dict[str, np.ndarray], index: int, state: list[str], n: int) -> Round:
    """Pair (i, j) reads the states of i and j; from them come the logits of every head, and the values of j."""
    sizes = model.architecture
    heads, keys = sizes.heads, sizes.query_width
    here, there = [*range(n + n * n)], [*range(n + n * n)]
    for i in range(n):
        for j in range(n):
            here[_pair(n, i, j)], there[_pair(n, i, j)] = i, j
    mine, its = [f"mine.{name}" for name in state], [f"its.{name}" for name in state]
    query, key, value = (
        _linear(read, p[f"{name}_weight"][index], p[f"{name}_bias"][index] if f"{name}_bias" in p else None)
        for name, read in (("query", mine), ("key", its), ("value", its))
    )
    matching = _turned_product if sizes.rotary else _product
    logits = {
        f"logit{h}": matching(query[h * keys : (h + 1) * keys], key[h * keys : (h + 1) * keys]) / float(np.sqrt(keys))
        for h in range(heads)
    }
    return Round(
        receive={slot: reads(name, here) for slot, name in zip(mine, state, strict=True)}
        | {slot: reads(name, there) for slot, name in zip(its, state, strict=True)},
        update=logits
        | {f"most{h}": logits[f"logit{h}"] for h in range(heads)}
        | {f"value{e}": value[e] for e in range(sizes.embed_dim)},
        note=f"layer {index + 1}: logits and values of every pair",
    )


def _softmax(n: int, heads: int, embed: int) -> list[Round]:
    """The largest logit of every row, exp of what lies below it, sums over the row, and the quotients at row nodes."""
    total, width = n + n * n, embed // heads
    zero = [*range(total)]
    first: list[int | None] = [None] * total
    for i in range(n):
        first[i] = _pair(n, i, 0)
        for j in range(n):
            zero[_pair(n, i, j)] = _pair(n, i, 0)
    below = [minimum(word(f"logit{h}") - word(f"top{h}"), 0.0) for h in range(heads)]
    weights = {f"weight{h}": call(np.exp, below[h], name="exp") for h in range(heads)}
    exponentials = Round(
        receive={f"top{h}": reads(f"most{h}", zero) for h in range(heads)},
        update=weights
        | {f"value{e}": call(product, weights[f"weight{e // width}"], word(f"value{e}")) for e in range(embed)},
        note="exp, and its products with the values",
    )
    share = [call(np.reciprocal, maximum(word(f"sum{h}"), 1.0), name="reciprocal") for h in range(heads)]
    quotients = Round(
        receive={f"sum{h}": reads(f"weight{h}", first) for h in range(heads)}
        | {f"got{e}": reads(f"value{e}", first) for e in range(embed)},
        update={f"read{e}": call(product, word(f"got{e}"), share[e // width]) for e in range(embed)},
        note="divide: what attention gives",
    )
    summed = [*(f"weight{h}" for h in range(heads)), *(f"value{e}" for e in range(embed))]
    return [*_row_maxima(n, heads), exponentials, *_row_sums(n, summed), quotients]


def _row_maxima(n: int, heads: int) -> list[Round]:
    """Pair (i, 0) gets the largest logit of row i, by doubling; beyond the row's end, its last node counts twice."""
    rounds = []
    for shift in doublings(n):
        ahead = [*range(n + n * n)]
        for i in range(n):
            for j in range(n):
                ahead[_pair(n, i, j)] = _pair(n, i, min(j + shift, n - 1))
        rounds.append(
            Round(
                receive={f"ahead{h}": reads(f"most{h}", ahead) for h in range(heads)},
                update={f"most{h}": maximum(word(f"most{h}"), word(f"ahead{h}")) for h in range(heads)},
                note="the largest logit of the row",
            )
        )
    return rounds


def _row_sums(n: int, summed: list[str]) -> list[Round]:
    """Pair (i, 0) gets the sums over row i, by doubling."""
    rounds = []
    for shift in doublings(n):
        after: list[int | None] = [None] * (n + n * n)
        for i in range(n):
            for j in range(n - shift):
                after[_pair(n, i, j)] = _pair(n, i, j + shift)
        rounds.append(
            Round(
                receive={f"more.{name}": reads(name, after) for name in summed},
                update={name: word(name) + word(f"more.{name}") for name in summed},
                note="sums over the row",
            )
        )
    return rounds


def _mlp(maps: int, p: dict[str, np.ndarray], index: int, state: list[str]) -> list[Round]:
    """W_O goes into the MLP's first map: [x ‖ r·W_O + b_O]·W₁ + b₁, one round for each map."""
    embed = len(state)
    own, read = p["mlp_in_weight"][index][:embed], p["mlp_in_weight"][index][embed:]
    joined = np.concatenate([own, p["output_weight"][index] @ read])
    bias = p["output_bias"][index] @ read + p["mlp_in_bias"][index] if "mlp_in_bias" in p else None
    names = [*state, *(f"read{e}" for e in range(embed))]
    rounds = []
    for level in range(maps - 1):
        if level:
            joined = p["mlp_middle_weight"][index][level - 1]
            bias = p["mlp_middle_bias"][index][level - 1] if "mlp_middle_bias" in p else None
        units = [f"h{level}.{u}" for u in range(joined.shape[1])]
        update = {unit: relu(e) for unit, e in zip(units, _linear(names, joined, bias), strict=True)}
        rounds.append(Round(update=update, note=f"MLP, map {level + 1}"))
        names = units
    out = p["mlp_out_bias"][index] if "mlp_out_bias" in p else None
    last = _linear(names, p["mlp_out_weight"][index], out)
    return [*rounds, Round(update=dict(zip(state, last, strict=True)), note=f"MLP, map {maps}")]
