"""A proof, step by step: what `posattn prove` and `Compiled.prove` do.

1  attention is selection               `attention`
2  each layer is its round              `induction`, `kinds`, `layers`, `symbolic`
3  the program is its specification     `specification`
4  rounding                             `induction`, `values`, `rounding`
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction

from posattn.compile.expressions import Array
from posattn.compile.expressions.known_functions import FUNCTIONS
from posattn.compile.input_ranges import Domain, shown_domain, shown_grid
from posattn.compile.lowering.constant_products import expand_products
from posattn.compile.lowering.fits import Fitted, checked_fits, replace_calls
from posattn.compile.program import Program
from posattn.compile.proof.attention import prove_selection
from posattn.compile.proof.findings import Finding, Outcome, OutOfTime
from posattn.compile.proof.induction import Layers, Subject, Watch, prove_layers
from posattn.compile.proof.largest_error import largest_error
from posattn.compile.proof.layer_weights import layer_weights
from posattn.compile.proof.precision import PRECISIONS
from posattn.compile.proof.record import Proof, Step
from posattn.compile.proof.specification import prove_specification
from posattn.errors import counted, require
from posattn.nn import ExactPositionalTransformer
from posattn.nn.weights import check_finite_weights

#: Inputs from which the search for the largest error starts; `benchmarks/proofs.py` uses a thousand.
STARTS = 16
#: The weights that a proof reads, which are all that a compiled model has.
READ = {
    "encoding", "constants", "encoder_weight", "query_weight", "query_bias", "key_weight", "key_bias", "value_weight",
    "output_weight", "mlp_in_weight", "mlp_middle_weight", "mlp_out_weight", "decoder_weight",
}  # fmt: skip
WITHIN = "all values within the bounds of the registers"


def prove(
    program: Program,
    model: ExactPositionalTransformer,
    *,
    domain: Domain,
    registers: tuple[str, ...],
    lines: tuple[Fitted, ...] = (),
    seconds: float | None = None,
) -> Proof:
    """The proof of a compiled model, not sealed yet. `seconds`: how long each step may take.

    `registers`: what each dimension of the state holds; `lines`: what stands for functions from outside the language.
    """
    dtype = next(model.parameters()).dtype
    require(dtype in PRECISIONS, f"the model is {dtype}: prove it in {' or '.join(map(str, PRECISIONS))}.")
    check_finite_weights(f"'{program.name}'", model.weights())
    strange = sorted(model.weights().keys() - READ)
    require(not strange, f"'{program.name}' has weights that no proof reads: {', '.join(strange)}. Compile it again.")
    about = Subject(
        program=_with_lines(program, domain, lines),
        weights=model.weights(),
        heads=model.architecture.heads,
        registers=registers,
        domain=domain,
        precision=PRECISIONS[dtype],
    )
    shown = shown_domain(domain) + shown_grid(program.grid)
    steps, bound = prove_steps(about, program, domain=shown, seconds=seconds)
    found = None if bound is None else largest_error(program, model, domain, starts=STARTS)
    if bound is not None and found is not None and found > bound:
        beyond = f"An input was found whose error is {found:.6g}, so that the bound does not hold"
        steps = [replace(step, outcome=Outcome.REFUTED, detail=beyond) if step.number == 4 else step for step in steps]
    return Proof(
        program=program.name,
        length=program.length,
        domain=shown,
        dtype=about.precision.name,
        steps=tuple(steps),
        bound=bound,
        found=found,
    )


def _with_lines(program: Program, domain: Domain, lines: tuple[Fitted, ...]) -> Program:
    """The program with broken lines for its functions from outside the language, each with an error that is proved."""
    if not program.outside() and not lines:
        return program
    expanded = expand_products(program, lines or None)  # where a constant is divided by, nothing is left to fit
    places = expanded.outside()
    require(
        bool(lines) or not places, f"'{program.name}' has a fitted function without bounds: {', '.join(places[:1])}."
    )
    proved = checked_fits(expanded, domain, lines)
    unproved = sorted({fit.function for fit in proved if not fit.proved})
    require(
        not unproved,
        f"'{program.name}' has fitted functions without bounds: {', '.join(unproved)}. Only functions that posattn "
        f"knows ({', '.join(FUNCTIONS)}) can be proved.",
    )
    return replace_calls(expanded, proved)


def prove_steps(
    about: Subject, specified: Program, *, domain: str, seconds: float | None
) -> tuple[list[Step], float | None]:
    """Every step, in order, and the bound of step 4, if it stands. `seconds`: how long each step may take.

    `specified`: the program as it was written, with its specification, where `about` has lines in place of functions.
    """
    watches = {number: Watch(seconds) for number in (1, 2, 3, 4)}
    layers = layer_weights(about.weights, about.heads)
    reads: Sequence[Sequence[Array]] = []
    try:
        with watches[1] as limit:
            used = [weights.used for weights in layers]
            selection = prove_selection(
                about.weights, heads=about.heads, used=used, precision=about.precision, limit=limit
            )
            one, reads = selection.finding, selection.reads
    except OutOfTime:
        one = Finding(Outcome.OPEN, "attention is selection", "all inputs", "exact integer arithmetic", "out of time")
    if one.outcome is Outcome.STANDS:
        found = prove_layers(about, reads, layers, watches[2], watches[4])
    else:
        found = Layers(undecided="nothing is known of what nodes read: step 1 does not stand")
    three = _specified(specified, watches[3])
    findings = {1: one, 2: _layers(about, found), 3: three, 4: _rounding(about, found, domain)}
    steps = [
        Step(number=number, seconds=round(watches[number].taken, 3), **finding._asdict())
        for number, finding in findings.items()
    ]
    return steps, None if found.bound is None else above(found.bound)


def above(number: Fraction) -> float:
    """The least float that is not below a fraction."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)


def rounded_up(number: float) -> str:
    """A number with six digits, not below it."""
    return f"{Context(prec=6, rounding=ROUND_CEILING).create_decimal(number):g}"


def _specified(program: Program, watch: Watch) -> Finding:
    """Step 3."""
    try:
        with watch as limit:
            return prove_specification(program, limit)
    except OutOfTime:
        return Finding(
            Outcome.OPEN, "the program is its specification", "all inputs", "the laws of its kind", "out of time"
        )


def _layers(about: Subject, found: Layers) -> Finding:
    """Step 2."""
    kept = (
        f"; registers that nothing depends on any more are left out: {_shown(found.dropped)}" if found.dropped else ""
    )
    layers, problems = counted(len(about.rounds), "layer"), counted(found.problems, "distinct problem")
    claim = f"each of {layers} is its round ({problems}){kept}"
    by = "z3, over exact fractions of the stored weights"
    if found.different:
        return Finding(Outcome.REFUTED, claim, WITHIN, by, f"Not so in {found.different}")
    if found.undecided or found.late:
        return Finding(Outcome.OPEN, claim, WITHIN, by, _why(found))
    return Finding(Outcome.STANDS, claim, WITHIN, by)


def _rounding(about: Subject, found: Layers, domain: str) -> Finding:
    """Step 4."""
    by, inputs = "error bounds in exact fractions, carried on by the rounds' own functions", f"all inputs in {domain}"
    if found.bound is None:
        why = "it rests on step 2" if found.different else _why(found)
        return Finding(Outcome.OPEN, f"a bound on |model(x) − program(x)| in {about.precision.name}", inputs, by, why)
    bound = above(found.bound)
    exact = "= 0: no operation rounds" if bound == 0 else f"≤ {rounded_up(bound)}"
    order = "for any order of summation, with or without fused multiply-add"
    return Finding(Outcome.STANDS, f"|model(x) − program(x)| {exact} in {about.precision.name}, {order}", inputs, by)


def _why(found: Layers) -> str:
    return found.undecided or f"out of time at {found.late}"


def _shown(dropped: dict[str, int], most: int = 8) -> str:
    named = [f"{name} from layer {layer}" if layer else f"{name} everywhere" for name, layer in dropped.items()]
    return ", ".join(named[:most]) + (f" and {len(named) - most} more" if len(named) > most else "")
