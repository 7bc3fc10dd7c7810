"""Programs and models at work on numbers that the caller gives."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from posattn.cli.app import ModelFile, Plugin, app, numeric_model, path
from posattn.cli.programs import program_options
from posattn.errors import PosattnError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from posattn.compile import Program
    from posattn.nn import LoopedPositionalTransformer, NumericModel
    from posattn.tasks import Task

Values = Annotated[list[str], typer.Argument(help="Numbers; x:y for a program with two inputs, as 7:0 8:2 9:1.")]
#: What the names of models that come with the package begin with.
ZOO = "zoo:"
#: Negative numbers are values here, not options.
NUMBERS = {"ignore_unknown_options": True}


@app.command("trace", context_settings=NUMBERS)
def trace_program(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM|FILE|zoo:MODEL",
            help="A program, as in `posattn programs`, a .pos file, a model's file, compiled or trained, or a model "
            "that comes with the package, as zoo:sort-positional.",
        ),
    ],
    values: Values,
    option: Annotated[list[str] | None, typer.Option(help="An option of the program; repeatable.")] = None,
    html: Annotated[
        str | None, typer.Option(help="Write a page with the network drawn and the values moving.", callback=path)
    ] = None,
    plugin: Plugin = None,
) -> None:
    """Watch a program or a model at work: who reads from whom, and what every node holds, step by step.

    Examples: posattn trace sort 3 1 2 5 4 --html sort.html; posattn trace sort16.safetensors 3 1 2; posattn trace
    zoo:sort-homogeneous 3 1 2 5 4 -1 0 7 --html trained.html
    """
    from posattn import plugins
    from posattn.files import write_whole

    plugins.load_all(plugin)
    if program.startswith(ZOO) or _holds_model(program):
        if option:
            raise PosattnError(f"--option {option[0]}: '{program}' is a trained model. Leave it out.")
        shown, page = _traced_model(program, values)
    else:
        shown, page = _traced_program(program, values, option)
    print(shown)
    if html is not None:
        write_whole(html, page().encode())
        print(f"page: {html}")


def _traced_program(name: str, values: list[str], option: list[str] | None) -> "tuple[str, Callable[[], str]]":
    """A program's trace for a terminal, and what makes its page."""
    from posattn.compile import library
    from posattn.compile.show import trace
    from posattn.compile.typed_input import library_input

    if name.endswith(".pos"):
        made, rows = _text_input(name, values, option)
    elif name in library.PROGRAMS or not _is_file(name):
        made, rows = library_input(name, values, program_options(option or []))
    else:
        if option:
            raise PosattnError(f"--option {option[0]}: the program in '{name}' is made already. Leave it out.")
        made, rows = _saved_input(name, values)
    added = trace.filled_up(rows, len(values))
    shown = trace.text(made, rows)
    return shown if added is None else f"{added}\n{shown}", lambda: trace.page(made, rows, given=len(values))


def _holds_model(name: str) -> bool:
    """Whether a name is that of a file with a model that was not compiled."""
    from posattn.compile import library
    from posattn.nn.weights import read_header

    if name in library.PROGRAMS or name.endswith(".pos") or not os.path.isfile(os.path.expanduser(name)):
        return False
    return "program" not in read_header(os.path.expanduser(name))


def _traced_model(name: str, values: list[str]) -> "tuple[str, Callable[[], str]]":
    """A model's trace for a terminal, and what makes its page."""
    import torch

    from posattn.compile.typed_input import typed_rows
    from posattn.html.trace import trace_page
    from posattn.nn import NumericModel, load
    from posattn.nn.weights import check_finite_weights
    from posattn.report.model_trace import model_text, model_trace

    x, exact = torch.tensor(typed_rows(values), dtype=torch.float64), None
    if name.startswith(ZOO):
        model, task = _zoo_model(name)
        exact = task.target(x[None])[0, :, 0]
    else:
        model = load(os.path.expanduser(name))
        check_finite_weights(f"'{name}'", model.weights())
    made = model_trace(model, x, exact=exact, title=os.path.basename(name))
    if isinstance(model, NumericModel) and name.startswith(ZOO) and len(x) != model.architecture.length:
        usual = f"lists of {model.architecture.length} numbers"
        note = f"The model was trained on {usual}; on {len(x)} its answer may be anything."
        made = replace(made, said=" ".join(filter(None, (note, made.said))))
        return f"{note}\n{model_text(made)}", lambda: trace_page(made)
    return model_text(made), lambda: trace_page(made)


def _zoo_model(name: str) -> "tuple[NumericModel | LoopedPositionalTransformer, Task]":
    """The model called zoo:TASK-MODEL, and its task."""
    from posattn import tasks, zoo
    from posattn.errors import unknown

    found = {f"{ZOO}{task}-{model}": (task, model) for task, model in zoo.of_lists()}
    if name not in found:
        raise unknown("trained model", name, found)
    task, model = found[name]
    return zoo.load(task, model), tasks.get(task)


def _text_input(file: str, values: list[str], option: list[str] | None) -> "tuple[Program, np.ndarray]":
    """The program of a text file, and an input of its whole length."""
    from posattn.compile.program_text import read_program
    from posattn.compile.typed_input import checked_input

    if option:
        raise PosattnError(f"--option {option[0]}: the program in '{file}' is written out. Leave it out.")
    made = read_program(path(file) or file)
    if len(values) != made.length:
        raise PosattnError(f"the values {' '.join(values)}: the program in '{file}' takes {made.length} of them.")
    return made, checked_input(made, values)


def _saved_input(file: str, values: list[str]) -> "tuple[Program, np.ndarray]":
    """The program of a compiled file, and its input, filled up to the length it was compiled for."""
    import numpy as np
    import torch

    from posattn.compile import load
    from posattn.compile.typed_input import typed_rows
    from posattn.compile.verify_inputs import filled

    rows = np.array(typed_rows(values))
    saved = load(os.path.expanduser(file))
    saved.check(torch.from_numpy(rows)[None])
    return saved.program, filled(saved.program, saved.domain, rows[None])[0]


def _is_file(name: str) -> bool:
    """Whether a name is meant as a file's: it is there, or it could not be a program's."""
    return os.sep in name or name.endswith(".safetensors") or os.path.exists(name)


@app.command("run-model", context_settings=NUMBERS)
def run_model(
    file: ModelFile,
    values: Values,
) -> None:
    """Run a model on numbers and print what comes out. It may be compiled, or trained on a numeric task.

    Example: posattn run-model sort16.safetensors 3 1 2
    """
    import torch

    from posattn import compile as compiler
    from posattn.compile.typed_input import typed_rows
    from posattn.nn.weights import check_finite_weights, read_header

    rows = torch.tensor([typed_rows(values)], dtype=torch.float64)
    if "program" in read_header(file):
        made = compiler.load(file)
        check_finite_weights(f"'{file}'", made.model.weights())
        found = made(rows)
    else:
        model = numeric_model(file)
        check_finite_weights(f"'{file}'", model.weights())
        with torch.no_grad():
            found = model(rows.to(next(model.parameters())))
    if not found.isfinite().all():
        raise PosattnError(
            f"the values {' '.join(values)}: the answer is too large for {found.dtype}. Give smaller numbers."
        )
    digits = 15 if found.dtype == torch.float64 else 7  # what the dtype holds; the next one is rounding
    for column in found[0].T.tolist():
        print(" ".join(f"{value:.{digits}g}" for value in column))
