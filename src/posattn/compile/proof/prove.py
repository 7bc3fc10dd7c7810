"""The steps of a proof, one after the other."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from torch import Tensor

from posattn.compile.expressions import Expression, Word
from posattn.compile.lowering.register_bounds import needed_registers
from posattn.compile.program import Program
from posattn.compile.proof.attention import prove_selection
from posattn.compile.proof.findings import Finding, Outcome, OutOfTime, TimeLimit
from posattn.compile.proof.layer_weights import LayerWeights, layer_weights
from posattn.compile.proof.layers import Layer, Prover, next_state
from posattn.compile.proof.precision import Precision
from posattn.compile.proof.states import Table, first_state
from posattn.compile.proof.values import NONE, Undecided
from posattn.compile.rounds import Round


@dataclass
class Watch:
    """The time that a step may take and has taken, over several turns."""

    limit: float | None
    taken: float = 0.0

    def __enter__(self) -> TimeLimit:
        self.start = time.monotonic()
        return TimeLimit(None if self.limit is None else max(0.0, self.limit - self.taken))

    def __exit__(self, *_: object) -> None:
        self.taken += time.monotonic() - self.start


@dataclass(frozen=True)
class Model:
    """What a proof is about."""

    program: Program
    weights: Mapping[str, Tensor]
    heads: int
    registers: tuple[str, ...]
    domain: float
    precision: Precision
    fits: Mapping[Expression, Fraction]


@dataclass
class LayersFound:
    different: str = ""  # where a layer is not its round
    undecided: str = ""
    late: str = ""  # which step ran out of time, and where
    layers: int = 0
    distinct: int = 0
    bound: Fraction | None = None
    dead: tuple[str, ...] = ()


def prove_layers(model: Model, reads: list, layers: Sequence[LayerWeights], two: Watch, four: Watch) -> LayersFound:
    program = model.program
    rounds = program.rounds or (Round(note="nothing to do"),)
    found = LayersFound()
    if len(rounds) != len(layers):
        found.different = f"{len(layers)} layers for {len(rounds)} rounds"
        return found
    live = needed_registers(program, rounds)
    places = {name: place for place, name in enumerate(model.registers)}
    added = [name for name in model.registers if name not in program.registers]
    later: list[set[str]] = [set()]
    for weights in reversed(layers):
        rows = weights.own.union(*weights.read.values())
        later.insert(0, later[0] | {name for name in added if places[name] in rows})
    table, prover = Table(), Prover(model.precision, model.fits)
    number = 0
    try:
        ends = first_state(
            program, model.registers, model.weights, live=live[0] | later[0], domain=model.domain,
            precision=model.precision, table=table,
        )  # fmt: skip
        state, constants = ends.state, set(ends.constants)
        for number, (weights, round_) in enumerate(zip(layers, rounds, strict=True)):
            after = [name for name in program.registers if name in live[number + 1]]
            updates = {name: round_.update.get(name, Word(name)) for name in after}
            updates |= {name: Word(name) for name in sorted(later[number + 1])}
            layer = Layer(number, weights, reads[number], round_, updates, program.nodes, places, state, constants)
            kinds = layer.kinds(table)
            for apart in (False, True):
                try:
                    with two as limit:
                        found.different = next((d for d in (prover.equal(layer, k, limit) for k in kinds) if d), "")
                    if not found.different:
                        break
                except Undecided:
                    if apart:
                        raise
                if apart:
                    break
                kinds = layer.kinds(table, apart=True)
            if found.different:
                found.different = f"layer {number}: {found.different}"
                return found
            with four as limit:
                pairs = [(kind, prover.errors(layer, kind, limit)) for kind in kinds]
                state = next_state(layer, pairs, table, prover)
            constants = constants - set(round_.update)
            found.layers += 1
        found.bound = max(
            table.values[cell].error for name in program.outputs for cell in state[name][: program.length]
        )
    except Undecided as reason:
        found.undecided = f"layer {number}: {reason}"
    except OutOfTime:
        found.late = f"layer {number}"
    found.distinct = len(prover.shown)
    return found
