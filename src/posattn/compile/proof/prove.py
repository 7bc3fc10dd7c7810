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
from posattn.compile.proof.findings import OutOfTime, TimeLimit
from posattn.compile.proof.kinds import Communication, Kind
from posattn.compile.proof.layer_weights import Cone, LayerWeights
from posattn.compile.proof.layers import Prover
from posattn.compile.proof.precision import Precision
from posattn.compile.proof.states import Table, first_state
from posattn.compile.proof.values import Undecided
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
    added = [name for name in model.registers if name not in program.registers]
    later = _read_later(layers, added, model.registers)
    table, prover = Table(), Prover(model.precision, model.fits)
    number = 0
    try:
        ends = first_state(
            program, model.registers, model.weights, live=live[0] | later[0], domain=model.domain,
            precision=model.precision, table=table,
        )  # fmt: skip
        state, constants = ends.state, set(ends.constants)
        for number, (weights, round_) in enumerate(zip(layers, rounds, strict=True)):
            seen = Communication(reads[number], round_, program.nodes, model.registers, state, constants)
            after = [name for name in program.registers if name in live[number + 1]]
            updates = {name: round_.update.get(name, Word(name)) for name in after}
            updates |= {name: Word(name) for name in sorted(later[number + 1])}
            state = {}
            for name, update in updates.items():
                cone = weights.cone(model.registers.index(name))
                with two as limit:
                    kinds, found.different = _compared(prover, seen, cone, update, table, limit)
                if found.different:
                    found.different = f"layer {number}, register '{name}', {found.different}"
                    return found
                with four as limit:
                    state[name] = np.zeros(len(reads[number][0]), dtype=np.int64)
                    for kind in kinds:
                        state[name][kind.nodes] = prover.after(cone, kind, table, limit)
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


def _read_later(layers: Sequence[LayerWeights], added: Sequence[str], registers: Sequence[str]) -> list[set[str]]:
    """The registers of the compiler's own that are read: by a layer or after it, for each layer and after the last."""
    later: list[set[str]] = [set()]
    for weights in reversed(layers):
        rows = {row for dimension in range(weights.width) for _, row in weights.cone(dimension).inputs}
        later.insert(0, later[0] | {name for name in added if registers.index(name) in rows})
    return later


def _compared(
    prover: Prover, seen: Communication, cone: Cone, update: Expression, table: Table, limit: TimeLimit
) -> tuple[list[Kind], str]:
    """The kinds of nodes for which the layer is its round, and the first difference, if there is one.

    Nodes that look alike are taken together first. Where that fails, all that differ in what is known are looked at by
    themselves.
    """
    for apart in (False, True):
        kinds = seen.kinds(cone, update, table, apart=apart)
        try:
            different = next((d for d in (prover.difference(cone, kind, limit) for kind in kinds) if d), "")
        except Undecided:
            if apart:
                raise
            continue
        if not different or apart:
            return kinds, different
    raise AssertionError
