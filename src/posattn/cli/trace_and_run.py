"""Programs and models at work on numbers that the caller gives."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from posattn.cli.app import ModelFile, Plugin, app, numeric_model, path
from posattn.cli.programs import program_options
from posattn.errors import PosattnError

if TYPE_CHECKING:
    import numpy as np

    from posattn.compile import Program

Values = Annotated[list[str], typer.Argument(help="Numbers; x:y for a program with two inputs, as 7:0 8:2 9:1.")]
#: Negative numbers are values here, not options.
NUMBERS = {"ignore_unknown_options": True}


@app.command("trace", context_settings=NUMBERS)
def trace_program(
    program: Annotated[
        str,
        typer.Argument(metavar="PROGRAM|FILE", help="A program, as in `posattn programs`, a .pos or a compiled file."),
    ],
    values: Values,
    option: Annotated[list[str] | None, typer.Option(help="An option of the program; repeatable.")] = None,
    html: Annotated[
        str | None, typer.Option(help="Write a page with the network drawn and the values moving.", callback=path)
    ] = None,
    plugin: Plugin = None,
) -> None:
    """Watch a program at work: who reads from whom, and what every register holds, round by round.

    Examples: posattn trace sort 3 1 2 5 4 --html sort.html; posattn trace sort16.safetensors 3 1 2
    """
    from posattn import plugins
    from posattn.compile import library
    from posattn.compile.show import trace
    from posattn.compile.typed_input import library_input
    from posattn.files import write_whole

    plugins.load_all(plugin)
    if program.endswith(".pos"):
        made, rows = _text_input(program, values, option)
    elif program in library.PROGRAMS or not _is_file(program):
        made, rows = library_input(program, values, program_options(option or []))
    else:
        if option:
            raise PosattnError(f"--option {option[0]}: the program in '{program}' is made already. Leave it out.")
        made, rows = _saved_input(program, values)
    added = trace.filled_up(rows, len(values))
    if added is not None:
        print(added)
    print(trace.text(made, rows))
    if html is not None:
        write_whole(html, trace.page(made, rows, given=len(values)).encode())
        print(f"page: {html}")


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
