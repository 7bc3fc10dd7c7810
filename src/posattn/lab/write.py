"""Write: a program of one's own as text, which is parsed and never executed: compile, watch, prove, download."""

import tempfile
from pathlib import Path

import numpy as np

from posattn.compile import Compiled, Program, compile, library
from posattn.compile.program_text import parse_program
from posattn.compile.typed_input import checked_input
from posattn.errors import PosattnError, counted, require
from posattn.lab.execute import proof_panel, run_program
from posattn.lab.limits import program_text, real, typed_words
from posattn.lab.panels import panel
from posattn.lab.shown import Note, Shown

#: Inputs lie in ± at most this.
MOST_DOMAIN = 1e9
#: Nodes and rounds of a program that the lab takes.
MOST_NODES, MOST_ROUNDS = 256, 256
#: How long a library program is that somebody starts from.
LENGTH = 8


def library_text(name: str) -> str:
    """The text of a library program, to start from."""
    return str(library.get(name, LENGTH))


def compiled(text: str, domain: float, *, note: Note) -> Shown:
    """What the program was compiled to, and its certificate."""
    made = _verified(text, domain, note)
    rounds = [round_.note or "round" for round_ in made.program.rounds]
    said = [made.summary(), str(made.certificate), *_unchecked(made.program)]
    return Shown((panel(f"{made.program.name}, compiled", said, steps=rounds),))


def watched(text: str, domain: float, numbers: str, *, note: Note) -> Shown:
    """The program at work on typed numbers."""
    program = _program(text)
    within = real("domain", domain, least=1e-6, most=MOST_DOMAIN)
    words = typed_words(numbers)
    require(
        len(words) == program.length,
        f"the program '{program.name}' takes {counted(program.length, 'number')}: type so many, not {len(words)}.",
    )
    rows = checked_input(program, words)
    largest = float(np.abs(rows).max())
    require(largest <= within, f"the numbers reach {largest:g}, and inputs lie in ±{within:g}: use a larger domain.")
    return run_program(program, rows, domain=within, proof=False, note=note)


def proved(text: str, domain: float, *, note: Note) -> Shown:
    """The proof, line by line."""
    return Shown((proof_panel(_compiled(text, domain, note), note),))


def weights(folder: str, text: str, domain: float, *, note: Note) -> Shown:
    """The verified weights as a file in `folder`."""
    made = _verified(text, domain, note)
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in made.program.name)[:60]
    path = Path(tempfile.mkdtemp(dir=folder)) / f"{name.strip('-') or 'program'}.safetensors"
    note("writing the weights")
    made.save(path)
    said = f"{path.name} holds the weights, the program and its certificate: {path.stat().st_size:,} bytes."
    then = f"Run it: posattn run-model {path.name} NUMBERS. Prove it: posattn prove {path.name}."
    return Shown((panel("Weights", [said, *_unchecked(made.program), then]),), str(path))


def _unchecked(program: Program) -> list[str]:
    """What a certificate does not say."""
    if program.specification is None:
        return []
    name = type(program.specification).__name__
    return [f"This holds of the program. Whether the program does what its specification, {name}, says: prove it."]


def _program(text: str) -> Program:
    found = parse_program(program_text(text))
    require(found.nodes <= MOST_NODES, f"the program has {found.nodes} nodes: the lab takes at most {MOST_NODES}.")
    require(
        len(found.rounds) <= MOST_ROUNDS,
        f"the program has {len(found.rounds)} rounds: the lab takes at most {MOST_ROUNDS}.",
    )
    return found


def _compiled(text: str, domain: float, note: Note) -> Compiled:
    within = real("domain", domain, least=1e-6, most=MOST_DOMAIN)
    note("reading the text")
    program = _program(text)
    note("compiling")
    return compile(program, domain=within)


def _verified(text: str, domain: float, note: Note) -> Compiled:
    made = _compiled(text, domain, note)
    note("verifying")
    made = made.verify()
    if made.certificate is None or not made.certificate.holds:
        raise PosattnError(f"the compiled model failed its test: {made.certificate} Compile with a smaller domain.")
    return made
