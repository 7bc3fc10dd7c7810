"""From a program to the weights of a positional Transformer: Theorem 5.1 of the paper, made to run.

    rounds become layers            attention = communication, MLP = local computation
    receive tables become heads     slots that read from the same nodes share one head
    nodes get positions             the smallest encoding whose softmax selects exactly
    updates become ReLU units       with gates as large as the bounds on the registers ask for

Each pass is a function from what the last one gave. `lower` is the list of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from posattn.compile.expressions import Array, Expression, Word, words_of
from posattn.compile.lowering.fit import Fit
from posattn.compile.lowering.positions import SINK, Pattern, Positions, choose
from posattn.compile.lowering.products import expand_products
from posattn.compile.lowering.ranges import Bounds, needed_registers, register_bounds
from posattn.compile.lowering.relu import ONE, Form, Network, Translator, levels, mentions, network
from posattn.compile.lowering.validate import check_decisions, check_language, check_sizes
from posattn.compile.program import Program, Round
from posattn.errors import require
from posattn.nn import ExactPositional, ExactPositionalTransformer, model_of

#: The head's number and its column: a received word as the MLP sees it.
Column = tuple[int, int]


@dataclass(frozen=True)
class Heads:
    """How one layer communicates: a pattern for every head, the registers it carries, and where slots arrive."""

    patterns: tuple[Pattern, ...]
    carried: tuple[tuple[str, ...], ...]
    slots: dict[str, tuple[Column, ...]]  # a slot is the sum of its columns; all but one are 0 at each node


@dataclass(frozen=True)
class Lowered:
    """A compiled model, and what a reader wants to know about it."""

    model: ExactPositionalTransformer
    registers: tuple[str, ...]
    encoding: str
    fits: tuple[Fit, ...]


def lower(program: Program, *, domain: float, fit: int | None = None, dtype: torch.dtype = torch.float32) -> Lowered:
    """The program as a model. Inputs lie in ±domain; `fit` allows functions from outside, with that many knots."""
    check_sizes(program, domain, dtype)
    program = expand_products(program, fit)
    check_language(program, fit)
    check_decisions(program, domain, dtype)
    rounds = program.rounds or (Round(note="nothing to do"),)
    ranges = register_bounds(program, domain)
    live = needed_registers(program, rounds)
    heads = [share_heads(round_, after) for round_, after in zip(rounds, live[1:], strict=True)]
    sink = any(SINK in pattern for head in heads for pattern in head.patterns)
    positions = choose(_distinct_patterns(heads, program.nodes), program.nodes, sink=sink)
    forms, fits = local_forms(rounds, ranges, live, heads, fit)
    registers = kept_registers(program, forms)
    networks = local_networks(forms, registers, ranges, heads)
    return Lowered(
        assemble(program, registers, heads, positions, networks, sink, dtype), registers, positions.name, fits
    )


def share_heads(round_: Round, after: set[str]) -> Heads:
    """One head for every set of nodes that is read from. A slot that reads several registers is split by register."""
    used = {name for register, e in round_.update.items() if register in after for name in words_of(e)}
    carried: dict[Pattern, list[str]] = {}
    wanted: dict[str, list[tuple[Pattern, str]]] = {}
    for slot, table in round_.receive.items():
        if slot not in used:
            continue
        wanted[slot] = []
        for register in dict.fromkeys(s[1] for s in table if s is not None):
            pattern = tuple(s[0] if s is not None and s[1] == register else SINK for s in table)
            wanted[slot].append((pattern, register))
            if register not in carried.setdefault(pattern, []):
                carried[pattern].append(register)
    patterns = list(carried)
    slots = {
        slot: tuple((patterns.index(pattern), carried[pattern].index(register)) for pattern, register in parts)
        for slot, parts in wanted.items()
    }
    return Heads(tuple(patterns), tuple(tuple(registers) for registers in carried.values()), slots)


def _distinct_patterns(heads: Sequence[Heads], nodes: int) -> list[Pattern]:
    """Every pattern of the program, and reading oneself, which idle heads do."""
    return list(dict.fromkeys([*(pattern for head in heads for pattern in head.patterns), tuple(range(nodes))]))


def _atom(column: Column) -> str:
    return f"@{column[0]}.{column[1]}"


def local_forms(
    rounds: Sequence[Round],
    ranges: Sequence[Bounds],
    live: Sequence[set[str]],
    heads: Sequence[Heads],
    fit: int | None,
) -> tuple[list[dict[str, Form]], tuple[Fit, ...]]:
    """Every live register after every round, as a form in registers before it and columns that arrive."""
    forms, fits = [], []
    for round_, (registers, words), after, head in zip(rounds, ranges, live[1:], heads, strict=False):
        aliases: dict[str, Form] = {slot: {_atom(c): 1.0 for c in columns} for slot, columns in head.slots.items()}
        translator = Translator(registers | words, aliases, fit)
        forms.append({name: translator.form(_updated(round_, name)) for name in registers if name in after})
        fits += translator.fits
    return forms, tuple(dict.fromkeys(fits))


def _updated(round_: Round, register: str) -> Expression:
    return round_.update.get(register, Word(register))


def kept_registers(program: Program, forms: Sequence[dict[str, Form]]) -> tuple[str, ...]:
    """The program's registers, and `one` where a constant is computed with."""
    counted = any(mentions(form, ONE) for round_ in forms for form in round_.values())
    return program.registers + ((ONE,) if counted else ())


def local_networks(
    forms: Sequence[dict[str, Form]],
    registers: tuple[str, ...],
    ranges: Sequence[Bounds],
    heads: Sequence[Heads],
) -> list[Network]:
    """The MLP of every round, all equally deep; `one` stays what it is to the end."""
    depth = max(levels(round_.values()) for round_ in forms)
    networks = []
    for round_, (before, words), head in zip(forms, ranges, heads, strict=False):
        columns = [_atom((h, c)) for h, carried in enumerate(head.carried) for c in range(len(carried))]
        unsigned = {name for name, held in before.items() if held.low.min() >= 0} | {ONE}
        unsigned |= {_atom(c[0]) for slot, c in head.slots.items() if len(c) == 1 and words[slot].low.min() >= 0}
        ones: dict[str, Form] = {ONE: {ONE: 1.0}}
        outputs = [(ones | round_).get(name, {}) for name in registers]
        networks.append(network([*registers, *columns], outputs, depth=depth, unsigned=unsigned))
    return networks


def assemble(
    program: Program,
    registers: tuple[str, ...],
    heads: Sequence[Heads],
    positions: Positions,
    networks: Sequence[Network],
    sink: bool,
    dtype: torch.dtype,
) -> ExactPositionalTransformer:
    """Put every matrix in its place. Register r is dimension r of the state; head h's columns start at h·width."""
    count = max(1, *(len(head.patterns) for head in heads))
    most = max([1, *(len(carried) for head in heads for carried in head.carried)])
    width = max(most, -(-len(registers) // count))
    embed, nodes = count * width, program.nodes + sink
    constants = [name for name in registers if name in program.constants or name == ONE]
    architecture = ExactPositional(
        length=program.length,
        scratchpad=nodes - program.length,
        in_dim=len(program.inputs),
        out_dim=len(program.outputs),
        embed_dim=embed,
        heads=count,
        layers=len(networks),
        hidden_dim=max(net.width for net in networks),
        mlp_layers=len(networks[0].matrices),
        bias=False,
        encoding="given",
        encoding_dim=positions.width,
        constants="given" if constants else None,
        constants_dim=len(constants) or None,
    )
    w = {name: np.zeros(shape) for name, shape in architecture.shapes().items()}
    place = {name: number for number, name in enumerate(registers)}
    w["encoding"] = positions.matrix
    for column, name in enumerate(constants):
        values = program.constants.get(name, (1.0,) * program.nodes)
        w["constants"][: program.nodes, column] = values
        w["encoder_weight"][len(program.inputs) + column, place[name]] = 1.0
    for column, name in enumerate(program.inputs):
        w["encoder_weight"][column, place[name]] = 1.0
    for column, name in enumerate(program.outputs):
        w["decoder_weight"][place[name], column] = 1.0
    itself = tuple(range(program.nodes))
    for layer, (head, net) in enumerate(zip(heads, networks, strict=True)):
        for h in range(count):
            block = slice(h * positions.width, (h + 1) * positions.width)
            pattern = head.patterns[h] if h < len(head.patterns) else itself
            w["query_weight"][layer][:, block] = positions.queries[pattern]
            w["key_weight"][layer][:, block] = positions.key
        arriving = []
        for h, carried in enumerate(head.carried):
            for c, register in enumerate(carried):
                w["value_weight"][layer][place[register], h * width + c] = 1.0
                arriving.append(embed + h * width + c)
        w["output_weight"][layer] = np.eye(embed)
        _fill(w, layer, net, rows=[*place.values(), *arriving], columns=list(place.values()))
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)).to(dtype) for name, value in w.items()}
    lost = [name for name, value in w.items() if ((value != 0) & (np.abs(value) < torch.finfo(dtype).tiny)).any()]
    require(not lost, f"{', '.join(lost)}: a factor is too small for {dtype}. Scale it, or compile in torch.float64.")
    large = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
    require(not large, f"{', '.join(large)}: too large for {dtype}. Compile for a smaller domain, or in float64.")
    model = model_of(architecture, tensors)
    assert isinstance(model, ExactPositionalTransformer)
    return model


def _fill(w: dict[str, Array], layer: int, net: Network, *, rows: list[int], columns: list[int]) -> None:
    """An MLP's matrices in the model's: fewer units than the model has leave the rest at 0."""
    first, *middle, last = net.matrices
    w["mlp_in_weight"][layer][rows, : first.shape[1]] = first
    for number, matrix in enumerate(middle):
        w["mlp_middle_weight"][layer][number, : matrix.shape[0], : matrix.shape[1]] = matrix
    w["mlp_out_weight"][layer][: last.shape[0], columns] = last
