"""Steps 2 and 4 over all layers: what is known of the state before a layer, then of the state after it.

Every layer is compared with its round on all values within what is known of the registers before it, rounding included;
that gives what is known after it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from torch import Tensor

from posattn.compile.expressions import Array, Expression, Word
from posattn.compile.input_ranges import Domain, bound_of
from posattn.compile.lowering.register_bounds import needed_registers
from posattn.compile.program import Program
from posattn.compile.proof.findings import OutOfTime, TimeLimit
from posattn.compile.proof.kinds import Communication, Kind
from posattn.compile.proof.layer_weights import Cone, LayerWeights
from posattn.compile.proof.layers import Prover
from posattn.compile.proof.overflow import first_sizes, next_sizes
from posattn.compile.proof.precision import Precision
from posattn.compile.proof.states import State, Table, first_state
from posattn.compile.proof.values import Undecided
from posattn.compile.rounds import Round


@dataclass(frozen=True)
class Subject:
    """What a proof is about: a program, and the weights that are to compute it."""

    program: Program
    weights: Mapping[str, Tensor]
    heads: int
    registers: tuple[str, ...]
    domain: Domain
    precision: Precision

    @property
    def rounds(self) -> tuple[Round, ...]:
        return self.program.rounds or (Round(note="nothing to do"),)


@dataclass
class Watch:
    """The time that a step may take, over several turns, and what it has taken."""

    limit: float | None
    taken: float = 0.0
    start: float = 0.0

    def __enter__(self) -> TimeLimit:
        self.start = time.monotonic()
        return TimeLimit(None if self.limit is None else max(0.0, self.limit - self.taken))

    def __exit__(self, *_: object) -> None:
        self.taken += time.monotonic() - self.start


@dataclass
class Layers:
    """What was found. At most one of the first three is not empty."""

    different: str = ""  # where a layer is not its round
    undecided: str = ""  # where rounding could decide otherwise, or a number overflow
    late: str = ""  # where the time was over
    problems: int = 0  # distinct ones
    bound: Fraction | None = None  # of |model − program| at any output
    dropped: dict[str, int] = field(default_factory=dict)  # register → the layer from which on nothing depends on it


def prove_layers(
    about: Subject, reads: Sequence[Sequence[Array]], layers: Sequence[LayerWeights], equality: Watch, rounding: Watch
) -> Layers:
    """Steps 2 and 4. `reads[layer][head]`: whom each node reads, from step 1."""
    found, prover, number = Layers(), Prover(about.precision), 0
    if len(about.rounds) != len(layers):
        found.different = f"the model has {len(layers)} layers and the program {len(about.rounds)} rounds"
        return found
    live = [before | later for before, later in zip(_needed(about), _read_later(about, layers), strict=True)]
    found.dropped = _dropped(about.registers, live)
    table = Table()
    try:
        state, constants = first_state(
            about.program, about.registers, about.weights, live=live[0], domain=about.domain,
            precision=about.precision, table=table,
        )  # fmt: skip
        sizes = first_sizes(_arrays(about.weights), _input_sizes(about))
        for number, (weights, round_) in enumerate(zip(layers, about.rounds, strict=True)):
            sizes = next_sizes(weights, _known_sizes(sizes, about.registers, state, table), about.precision)
            seen = Communication(reads[number], round_, about.program.nodes, about.registers, state, constants)
            before, state = state, {}
            for name in (name for name in about.registers if name in live[number + 1]):
                cone, update = weights.cone(about.registers.index(name)), round_.update.get(name, Word(name))
                with equality as limit:
                    kinds, different = _compared(prover, seen, cone, update, table, limit)
                if different:
                    found.different = f"layer {number}, register '{name}', {different}"
                    return found
                state[name] = np.zeros(len(reads[number][0]), dtype=np.int64)
                with rounding as limit:
                    for kind in kinds:
                        state[name][kind.nodes] = prover.after(cone, kind, table, limit)
            # a constant that the layer rounds on its way is a number with an error, as any other
            kept = constants.intersection(state) - set(round_.update)
            constants = {name for name in kept if np.array_equal(state[name], before[name])}
        found.bound = _decoded(about, state, table)
    except Undecided as reason:
        found.undecided = f"layer {number}: {reason}"
    except OutOfTime:
        found.late = f"layer {number} of {len(layers)}"
    found.problems = len(prover.shown)
    return found


def _needed(about: Subject) -> list[set[str]]:
    return needed_registers(about.program, about.rounds)


def _read_later(about: Subject, layers: Sequence[LayerWeights]) -> list[set[str]]:
    """The registers of the compiler's own that are read: by a layer or after it, for each layer and after the last."""
    added = {place: n for place, n in enumerate(about.registers) if n not in about.program.registers}
    later: list[set[str]] = [set()]
    for weights in reversed(layers):
        rows = {row for dimension in range(weights.width) for _, row in weights.cone(dimension).inputs}
        later.insert(0, later[0] | {name for place, name in added.items() if place in rows})
    return later


def _dropped(registers: Sequence[str], live: Sequence[set[str]]) -> dict[str, int]:
    """The registers that are left out before the end, and the first layer that has no more use for each."""
    last = {name: max((k for k, held in enumerate(live) if name in held), default=-1) for name in registers}
    return {name: layer + 1 for name, layer in last.items() if layer + 1 < len(live)}


def _compared(
    prover: Prover, seen: Communication, cone: Cone, update: Expression, table: Table, limit: TimeLimit
) -> tuple[list[Kind], str]:
    """The kinds of nodes for which the layer is its round, and the first difference, if there is one.

    Nodes that look alike are taken together first. Where that fails, all that differ in what is known are looked at by
    themselves.
    """
    kinds = seen.kinds(cone, update, table)
    try:
        if not any(prover.difference(cone, kind, limit) for kind in kinds):
            return kinds, ""
    except Undecided:
        pass
    kinds = seen.kinds(cone, update, table, apart=True)
    return kinds, next((d for d in (prover.difference(cone, kind, limit) for kind in kinds) if d), "")


def _known_sizes(sizes: Array, registers: Sequence[str], state: State, table: Table) -> Array:
    """The same sizes, with what is known of the registers in place of sums of sizes."""
    sizes = sizes.copy()
    for place, name in enumerate(registers):
        if name in state:
            held = [table.values[cell] for cell in np.unique(state[name])]
            sizes[place] = max(float(value.reach + value.error) for value in held)
    return sizes


def _decoded(about: Subject, state: State, table: Table) -> Fraction:
    """The largest error of an output; refused where the decoder does not give the registers as they are."""
    decoder, program = about.weights["decoder_weight"].detach().cpu(), about.program
    for column, name in enumerate(program.outputs):
        rows = {int(row): float(decoder[row, column]) for row in decoder[:, column].nonzero()}
        if rows != {about.registers.index(name): 1.0}:
            raise Undecided(f"the decoder does not give register '{name}' as it is")
    held = (table.values[cell] for name in program.outputs for cell in np.unique(state[name][: program.output_nodes]))
    return max(value.error for value in held)


def _input_sizes(about: Subject) -> list[float]:
    program = about.program
    return [
        float(program.length) if name in program.permutations else bound_of(program, about.domain, name)
        for name in program.inputs
    ]


def _arrays(weights: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: tensor.detach().cpu().double().numpy() for name, tensor in weights.items()}
