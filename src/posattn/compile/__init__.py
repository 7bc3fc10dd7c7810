"""From a parallel algorithm to the weights of a positional Transformer that computes it exactly.

>>> import torch
>>> sorter = compile(library.get("sort", 16), domain=1000).verify()
>>> sorter(torch.tensor([3.0, 1.0, 2.0]))
tensor([1., 2., 3.])
>>> sorter.certificate.holds
True

`expressions` is the language of local functions; `program` and `rounds` say what a program is, `specification` what it
should compute; `interpreter` runs one as written; `lowering` turns it into weights; `verify` compares the two, and
`certificate` records the outcome. `programs` holds the library and programs with computed addresses (`mpc`); `show`
draws programs and traces them.
"""

from posattn.compile import learned_program, specification
from posattn.compile.certificate import Certificate
from posattn.compile.compiled import Compiled, compile, load
from posattn.compile.expressions import (
    absolute,
    call,
    clip,
    distance,
    equal,
    exchange,
    floor_divide,
    gate,
    maximum,
    minimum,
    modulo,
    positive,
    product,
    ramp,
    relu,
    select,
    sigmoid,
    word,
)
from posattn.compile.interpreter import run
from posattn.compile.program import Program
from posattn.compile.programs import library, mpc
from posattn.compile.programs.benes import benes
from posattn.compile.proof.record import Proof
from posattn.compile.rounds import Round, reads

__all__ = [
    "Certificate",
    "Compiled",
    "Program",
    "Proof",
    "Round",
    "absolute",
    "benes",
    "call",
    "clip",
    "compile",
    "distance",
    "equal",
    "exchange",
    "floor_divide",
    "gate",
    "learned_program",
    "library",
    "load",
    "maximum",
    "minimum",
    "modulo",
    "mpc",
    "positive",
    "product",
    "ramp",
    "reads",
    "relu",
    "run",
    "select",
    "sigmoid",
    "specification",
    "word",
]
