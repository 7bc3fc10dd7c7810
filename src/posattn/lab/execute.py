"""Execute: a model at work on typed numbers, with its answer beside the exact one."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from posattn import tasks, zoo
from posattn.compile import Compiled, compile, run
from posattn.compile.expected import expected, speaks_of
from posattn.compile.learned_program import learned_program
from posattn.compile.program import Program
from posattn.compile.show import trace
from posattn.compile.typed_input import library_input, typed_rows
from posattn.errors import counted, require
from posattn.lab.limits import typed_words
from posattn.lab.models import PROGRAM, check_count, named
from posattn.lab.panels import Table, number, panel
from posattn.lab.shown import Note, Page, Shown
from posattn.nn import LoopedPositionalTransformer
from posattn.report.model_trace import model_page
from posattn.theory.looped_errors import error_bound

#: Models are compiled for numbers in ± this, unless larger ones were typed.
DOMAIN = 1000.0
#: float32 holds sums of as many numbers as may be typed, of this size.
MOST_DOMAIN = 1e30
#: Beside the largest number of an answer, what rounding in float64 may make of it.
RIGHT = 1e-9
#: Of the lab's budget, the seconds that each step of a proof may take.
SECONDS = 2.0


def execute(choice: str, numbers: str, proof: bool = False, *, note: Note) -> Shown:
    """The named model on the numbers: answer, exact answer and error, the trace, and a proof where one is asked for."""
    kind, name, *model = named(choice)
    words = typed_words(numbers)
    if kind == PROGRAM:
        program, rows = library_input(name, words, {})
        return run_program(program, rows, domain=domain_of(rows), proof=proof, note=note)
    return _trained(name, model[0], words, proof=proof, note=note)


def run_program(program: Program, rows: np.ndarray, *, domain: float, proof: bool, note: Note) -> Shown:
    """A program compiled for inputs in ±domain and run, beside what its specification asks for, or its own steps."""
    note("compiling")
    made = compile(program, domain=domain)
    note("running")
    given = made(torch.from_numpy(rows).float()[None])[0].double().numpy()
    meant = reference(program, rows)
    sizes = made.model.architecture
    layers, nodes = counted(sizes.depth, "layer"), counted(sizes.nodes, "node")
    about = f"Compiled, not trained: {layers}, {nodes}, inputs in ±{made.domain:g}."
    pages = [answers(program.name, [about, *meant.notes], given, meant)]
    pages.append(Page("the trace, round by round", trace.page(program, rows)))
    if proof:
        pages.append(proof_panel(made, note))
    return Shown(tuple(pages))


def _trained(task: str, kind: str, words: Sequence[str], *, proof: bool, note: Note) -> Shown:
    rows = typed_rows(words)
    require(len(rows[0]) == 1, f"the values {' '.join(words)}: a model for '{task}' takes one number per node.")
    note("loading the model")
    model = zoo.load(task, kind)
    check_count(model, f"{task}, {kind}", len(rows))
    dtype = next(model.parameters()).dtype
    x = torch.tensor(rows, dtype=dtype)
    exact = exact_answer(task, x)
    note("running")
    with torch.no_grad():
        given = model(x[None])[0].double()
    width = str(dtype).removeprefix("torch.")
    require(
        bool(given.isfinite().all()), f"the numbers are too large for a model in {width}: its answer is not finite."
    )
    about = f"{kind} model, trained on {task} with eight numbers in [−2, 2]."
    pages = [answers(f"{task}, {kind}", [about], given.numpy(), Reference(exact.numpy()))]
    pages.append(Page("the trace, layer by layer", model_page(model, x, exact=exact[:, 0], title=f"{task}, {kind}")))
    if proof:
        pages.append(_learned_proof(model, len(rows), note))
    return Shown(tuple(pages))


def exact_answer(task: str, x: Tensor) -> Tensor:
    """What a task's answer is, in float64, for x of shape (length, 1)."""
    return tasks.get(task).target(x[None].double())[0]


class Reference(NamedTuple):
    """What an answer is compared with (nodes, outputs): what it is, and what has to be said of it."""

    values: np.ndarray
    row: str = "exact"
    equal: str = "The answer is exact, to the last digit."
    largest: str = "Largest error"
    notes: tuple[str, ...] = ()


def reference(program: Program, rows: np.ndarray) -> Reference:
    """What a program's specification asks for; without one, what its own steps give on numbers in float64."""
    steps, given = run(program, rows[None])[0], program.specification
    if given is not None and speaks_of(given, rows):
        name = f"its specification, {type(given).__name__}"
        exact = expected(program, rows[None])[0]
        off = float(np.abs(steps - exact).max())
        wrong = f"The program does not do what its specification says: its own steps are off by {off:.2e}."
        return Reference(
            exact,
            equal=f"The answer is what {name}, asks for, to the last digit.",
            largest=f"Largest error, beside what {name}, asks for",
            notes=(wrong,) if off > RIGHT * max(1.0, float(np.abs(exact).max())) else (),
        )
    silent = (
        "The program has no specification, so the answer is compared with the program's own steps."
        if given is None
        else f"The specification, {type(given).__name__}, does not speak of these numbers, so the answer is compared "
        "with the program's own steps."
    )
    return Reference(
        steps,
        row="own steps",
        equal="The answer equals the program's own steps, to the last digit.",
        largest="Largest difference from the program's own steps",
        notes=(silent,),
    )


def answers(name: str, about: Sequence[str], given: np.ndarray, meant: Reference) -> Page:
    """The answer (nodes, outputs) beside what it should be."""
    off = np.abs(given - meant.values)
    rows = []
    for column in range(given.shape[1]):
        which = f", output {column + 1}" if given.shape[1] > 1 else ""
        rows.append((f"answer{which}", *map(number, given[:, column])))
        rows.append((f"{meant.row}{which}", *map(number, meant.values[:, column])))
        rows.append((f"error{which}", *(f"{value:.1e}" if value else "0" for value in off[:, column])))
    nodes = tuple(str(node) for node in range(len(given)))
    largest = f"{meant.largest}: {off.max():.2e}." if off.max() else meant.equal
    table = Table(caption="Answer by node", header=("node", *nodes), rows=tuple(rows))
    return panel(f"{name} on {counted(len(given), 'number')}", [*about, largest], tables=[table])


def proof_panel(made: Compiled, note: Note, *, said: Sequence[str] = ()) -> Page:
    """The proof of a compiled model, line by line, under what else is to be said."""
    note("proving")
    proof = made.prove(seconds=SECONDS)
    about, *lines = str(proof).splitlines()
    others = [line.strip() for line in lines[len(proof.steps) :]]
    steps = [str(step).partition(". ")[2] for step in proof.steps]
    return panel("Proof", [*said, about, *others], steps=steps)


def _learned_proof(model: object, length: int, note: Note) -> Page:
    """What a looped model has learned, proved, and how far from it the model can be."""
    if not isinstance(model, LoopedPositionalTransformer):
        why = "This model was trained, and nothing is proved of it. Compiled programs and looped models can be proved."
        return panel("Proof", [why])
    note("reading off what was learned")
    program, bound = learned_program(model, length), error_bound(model, length, rounding=True)
    said = (
        f"This model has learned the program '{program.name}'. For every input of {counted(length, 'number')} its "
        f"answer is off by at most {bound.value:.2e} · {bound.of}, rounding included. What follows is proved of the "
        "program."
    )
    return proof_panel(compile(program), note, said=[said])


def domain_of(rows: np.ndarray) -> float:
    """± what a model is compiled for: the usual, or the next power of ten where larger numbers were typed."""
    largest = float(np.abs(rows).max())
    require(
        largest <= MOST_DOMAIN, f"{largest:g} is too large for a compiled program: type numbers in ±{MOST_DOMAIN:g}."
    )
    return DOMAIN if largest <= DOMAIN else 10.0 ** math.ceil(math.log10(largest))
