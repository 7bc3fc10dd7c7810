"""Programs and their compiled models."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from posattn.cli.app import app, pairs
from posattn.errors import PosattnError, unknown

if TYPE_CHECKING:
    from posattn.compile import Compiled


@app.command("programs")
def list_programs() -> None:
    """List the parallel programs that can be compiled to exact weights, with their cost at length 8.

    In Python: posattn.compile.compile(posattn.compile.library.get("sort", 16)).
    """
    from posattn.compile import compile, library

    table = Table("program", "computes", "layers", "nodes", "encoding", title="Programs, compiled at length 8")
    for name, build in library.PROGRAMS.items():
        made = compile(library.get(name, 8))
        sizes = made.model.architecture
        told = (build.__doc__ or "").split(".")[0].split(":")[0]
        table.add_row(
            name, escape(told), str(sizes.depth), str(sizes.nodes), f"{made.encoding}, {sizes.encoding_width}"
        )
    Console().print(table)


@app.command("compile")
def compile_program(
    program: Annotated[str, typer.Argument(help="A program, as in `posattn programs`.")],
    length: Annotated[int, typer.Option(help="How many numbers it works on.")],
    domain: Annotated[float, typer.Option(help="Inputs lie in ± this.")] = 1000.0,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the program, as operation=min or route=grid; repeatable.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="File to write; default: PROGRAM-LENGTH.safetensors.")] = None,
) -> None:
    """Compile a parallel program to the weights of a positional Transformer, verify it, and save both.

    Example: posattn compile sort --length 16 --domain 1000 --out sort16.safetensors
    """
    import torch

    from posattn import compile as compiler

    dtypes = {"float32": torch.float32, "float64": torch.float64}
    if dtype not in dtypes:
        raise unknown("dtype", dtype, dtypes)
    made = compiler.compile(
        compiler.library.get(program, length, **_options(option or [])), domain=domain, dtype=dtypes[dtype]
    ).verify()
    print(made.summary())
    _print_certificate(made)  # what fails is not written
    path = out or f"{program}-{length}.safetensors"
    made.save(path)
    print(f"written: {path}")


def _options(given: list[str]) -> dict[str, Any]:
    """operation=min, source=3, destinations=2,0,1: numbers where they look like numbers."""
    found: dict[str, Any] = {}
    for name, value in pairs(given).items():
        if name in ("name", "length"):
            raise PosattnError(f"--option {name}={value}: the program's {name} is no option, it is given by itself.")
        parts = [_number(part) for part in value.split(",")]
        found[name] = parts if len(parts) > 1 else parts[0]
    return found


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _print_certificate(made: "Compiled") -> None:
    assert made.certificate is not None
    print(made.certificate)
    if not made.certificate.holds:
        raise typer.Exit(1)


@app.command("verify")
def verify_file(
    file: Annotated[str, typer.Argument(help="A file that `posattn compile` wrote.")],
    samples: Annotated[int, typer.Option(help="Random inputs to try, besides the nasty ones.")] = 256,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
) -> None:
    """Check a compiled model against its program again. Exit code 1 where it disagrees, with the first input."""
    from posattn.compile import load

    made = load(file)
    print(made.summary())
    _print_certificate(made.verify(samples=samples, seed=seed))


Values = Annotated[list[str], typer.Argument(help="Numbers; x:y for a program with two inputs, as 7:0 8:2 9:1.")]
#: Negative numbers are values here, not options.
NUMBERS = {"ignore_unknown_options": True}


def _rows(values: list[str]) -> list[list[float]]:
    """One row a node, one column an input."""
    try:
        rows = [[float(part) for part in value.split(":")] for value in values]
    except ValueError as error:
        raise PosattnError(f"the values {' '.join(values)}: {error}. Give numbers, as 3 1 2.") from None
    if not all(math.isfinite(value) for row in rows for value in row):
        raise PosattnError(f"the values {' '.join(values)}: one is not finite. Give numbers, as 3 1 2.")
    if len({len(row) for row in rows}) > 1:
        raise PosattnError(f"the values {' '.join(values)}: give every node as many inputs.")
    return rows


@app.command("trace", context_settings=NUMBERS)
def trace_program(
    program: Annotated[str, typer.Argument(help="A program, as in `posattn programs`.")],
    values: Values,
    option: Annotated[list[str] | None, typer.Option(help="An option of the program; repeatable.")] = None,
    html: Annotated[str | None, typer.Option(help="Write a page with the network drawn and the values moving.")] = None,
) -> None:
    """Watch a program at work: who reads from whom, and what every register holds, round by round.

    Example: posattn trace sort 3 1 2 5 4 --html sort.html
    """
    import numpy as np
    import torch

    from posattn.compile import library, trace
    from posattn.compile.compiled import check_kinds
    from posattn.files import write_whole

    rows = np.array(_rows(values))
    made = library.get(program, len(rows), **_options(option or []))
    if rows.shape[1] != len(made.inputs):
        named = ":".join(made.inputs)
        raise PosattnError(f"the values {' '.join(values)}: '{program}' takes {named} for every node.")
    check_kinds(made, torch.from_numpy(rows)[None], torch.float64)
    print(trace.text(made, rows))
    if html is not None:
        write_whole(html, trace.page(made, rows).encode())
        print(f"page: {html}")


@app.command("run-model", context_settings=NUMBERS)
def run_model(
    file: Annotated[str, typer.Argument(help="A model's file: compiled, or trained on a numeric task.")],
    values: Values,
) -> None:
    """Run a model on numbers and print what comes out.

    Example: posattn run-model sort16.safetensors 3 1 2
    """
    import torch

    from posattn import compile as compiler
    from posattn.nn import NumericModel, load
    from posattn.nn.weights import read_header

    rows = torch.tensor([_rows(values)], dtype=torch.float64)
    if "program" in read_header(file):
        found = compiler.load(file)(rows)
    else:
        model = load(file)
        if not isinstance(model, NumericModel):
            raise PosattnError(f"'{file}' holds a model for tokens or text: this command runs models for numbers.")
        with torch.no_grad():
            found = model(rows.to(next(model.parameters())))
    digits = 15 if found.dtype == torch.float64 else 7  # what the dtype holds; the next one is rounding
    for column in found[0].T.tolist():
        print(" ".join(f"{value:.{digits}g}" for value in column))
