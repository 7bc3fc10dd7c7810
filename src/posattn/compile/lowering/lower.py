"""From a program to the weights of a positional Transformer: Theorem 5.1 of the paper, made to run.

    functions become lines          where the caller allows fits
    rounds become layers            attention = communication, MLP = local computation
    receive tables become heads     slots that read from the same nodes share one head
    nodes get positions             the smallest encoding whose softmax selects exactly
    updates become ReLU units       with gates as large as the bounds on the registers require

Each pass is a function of what the earlier ones return. `lower` is the list of them.
"""

from dataclasses import dataclass

import torch

from posattn.compile.input_ranges import Domain
from posattn.compile.lowering.assemble import assemble
from posattn.compile.lowering.constant_products import expand_products
from posattn.compile.lowering.fits import Fitted, checked_fits, fit_calls, replace_calls
from posattn.compile.lowering.heads import distinct_patterns, layer_heads, needs_sink
from posattn.compile.lowering.positions import choose
from posattn.compile.lowering.register_bounds import needed_registers, register_bounds
from posattn.compile.lowering.updates import kept_registers, local_forms, local_networks
from posattn.compile.lowering.validate import check_decisions, check_language, check_sizes
from posattn.compile.program import Program
from posattn.compile.rounds import Round
from posattn.nn import ExactPositionalTransformer


@dataclass(frozen=True)
class Lowered:
    """A compiled model, and how it was made."""

    model: ExactPositionalTransformer
    registers: tuple[str, ...]
    encoding: str
    fits: tuple[Fitted, ...]


def lower(
    program: Program,
    *,
    domain: Domain,
    fit: int | tuple[Fitted, ...] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Lowered:
    """The program as a model. Inputs lie in the domain; `fit` allows functions from outside, with that many knots or as
    these very lines."""
    check_sizes(program, domain, dtype)
    written, program = program, expand_products(program, fit)
    check_language(program, fit)
    fits = _fits(program, domain, fit, dtype)
    program = replace_calls(program, fits)
    check_decisions(program, domain, dtype)

    rounds = program.rounds or (Round(note="nothing to do"),)
    ranges = register_bounds(program, domain)
    # a constant that became a factor is read no more, but kept: a proof compares the model with what was written
    as_written = needed_registers(written, written.rounds or rounds)
    live = [one | other for one, other in zip(needed_registers(program, rounds), as_written, strict=True)]

    heads = layer_heads(rounds, live)
    positions = choose(distinct_patterns(heads, program.nodes), program.nodes, sink=needs_sink(heads))

    forms = local_forms(rounds, ranges, live, heads)
    registers = kept_registers(program, forms)
    networks = local_networks(forms, registers, ranges, heads)

    model = assemble(program, registers, heads, positions, networks, dtype)
    return Lowered(model, registers, positions.name, fits)


def _fits(
    program: Program, domain: Domain, fit: int | tuple[Fitted, ...] | None, dtype: torch.dtype
) -> tuple[Fitted, ...]:
    if isinstance(fit, tuple):
        return checked_fits(program, domain, fit)
    return () if fit is None else fit_calls(program, domain, knots=fit, dtype=dtype)
