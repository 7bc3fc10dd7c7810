"""Programs and their compiled models."""

import json
import math
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from posattn.cli.app import LARGEST, Json, ModelFile, app, numeric_model, pairs, path, plain
from posattn.errors import PosattnError, unknown

if TYPE_CHECKING:
    from posattn.compile import Compiled


@app.command("programs")
def list_programs(as_json: Json = False) -> None:
    """List the parallel programs that can be compiled to exact weights, with their cost at length 8.

    In Python: posattn.compile.compile(posattn.compile.programs.library.get("sort", 16)).
    """
    from posattn.compile import compile, library

    rows = []
    for name, build in library.PROGRAMS.items():
        made = compile(library.get(name, 8))
        sizes = made.model.architecture
        rows.append(
            {
                "program": name,
                "computes": (build.__doc__ or "").split(".")[0].split(":")[0],
                "layers": sizes.depth,
                "nodes": sizes.nodes,
                "encoding": made.encoding,
                "encoding_width": sizes.encoding_width,
            }
        )
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("program", "computes", "layers", "nodes", "encoding", title="Programs, compiled at length 8")
    for row in rows:
        name, told, layers, nodes, encoding, width = map(str, row.values())
        table.add_row(name, escape(told), layers, nodes, f"{encoding}, {width}")
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
    out: Annotated[
        str | None, typer.Option(help="File to write; default: PROGRAM-LENGTH.safetensors.", callback=path)
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile a parallel program to the weights of a positional Transformer, verify it, and save both.

    Example: posattn compile sort --length 16 --domain 1000 --out sort16.safetensors
    """
    import torch

    from posattn import compile as compiler
    from posattn.compile.resources import check_memory

    dtypes = {"float32": torch.float32, "float64": torch.float64}
    if dtype not in dtypes:
        raise unknown("dtype", dtype, dtypes)
    options = _options(option or [])
    if program in compiler.library.PROGRAMS and length >= 1:
        check_memory(program, length, str(options.get("route", "sort")))
    found = compiler.library.get(program, length, **options)
    made = compiler.compile(found, domain=domain, dtype=dtypes[dtype]).verify()
    assert made.certificate is not None
    file = out or f"{program}-{length}.safetensors"
    if made.certificate.holds:  # what fails is not written
        made.save(file)
    _print_certificate(made, as_json, file if made.certificate.holds else None)


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


def _print_certificate(made: "Compiled", as_json: bool, written: str | None) -> None:
    """What was compiled and how well it agrees with its program; exit code 1 where it does not."""
    assert made.certificate is not None
    if as_json:
        sizes = made.model.architecture
        about = {
            "program": made.program.name,
            "length": made.program.length,
            "domain": made.domain,
            "nodes": sizes.nodes,
            "layers": sizes.depth,
            "heads": sizes.heads,
            "encoding": made.encoding,
            "holds": made.certificate.holds,
            "certificate": json.loads(made.certificate.to_json()),
            "file": written,
        }
        print(json.dumps(plain(about)))
    else:
        print(made.summary())
        print(made.certificate)
        if written is not None:
            print(f"written: {written}")
    if not made.certificate.holds:
        raise typer.Exit(1)


@app.command("verify")
def verify_file(
    file: Annotated[str, typer.Argument(help="A file that `posattn compile` wrote.", callback=path)],
    samples: Annotated[int, typer.Option(help="Random inputs to try, besides the nasty ones.", max=LARGEST)] = 256,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.", max=LARGEST)] = 0,
    as_json: Json = False,
) -> None:
    """Check a compiled model against its program again. Exit code 1 where it disagrees, with the first input."""
    from posattn.compile import load

    _print_certificate(load(file).verify(samples=samples, seed=seed), as_json, None)


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
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM|FILE", help="A program, as in `posattn programs`, or a compiled file.")
    ],
    values: Values,
    option: Annotated[list[str] | None, typer.Option(help="An option of the program; repeatable.")] = None,
    html: Annotated[
        str | None, typer.Option(help="Write a page with the network drawn and the values moving.", callback=path)
    ] = None,
) -> None:
    """Watch a program at work: who reads from whom, and what every register holds, round by round.

    Examples: posattn trace sort 3 1 2 5 4 --html sort.html; posattn trace sort16.safetensors 3 1 2
    """
    import numpy as np
    import torch

    from posattn.compile import library, load
    from posattn.compile.compiled import check_kinds
    from posattn.compile.inputs import filled
    from posattn.compile.show import trace
    from posattn.files import write_whole

    rows = np.array(_rows(values))
    if program in library.PROGRAMS or not _is_file(program):
        made = library.get(program, len(rows), **_options(option or []))
        if rows.shape[1] != len(made.inputs):
            named = ":".join(made.inputs)
            raise PosattnError(f"the values {' '.join(values)}: '{program}' takes {named} for every node.")
        check_kinds(made, torch.from_numpy(rows)[None], torch.float64)
    else:
        if option:
            raise PosattnError(f"--option {option[0]}: the program in '{program}' is made already. Leave it out.")
        saved = load(os.path.expanduser(program))
        saved.check(torch.from_numpy(rows)[None])
        made, given, rows = saved.program, len(rows), filled(saved.program, saved.domain, rows[None])[0]
        if given < len(rows):
            pad = ":".join(f"{value:g}" for value in rows[-1])
            print(f"{given} of {len(rows)} numbers were given; filled up with {pad}, which the program ignores")
    print(trace.text(made, rows))
    if html is not None:
        write_whole(html, trace.page(made, rows).encode())
        print(f"page: {html}")


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
    from posattn.nn.weights import check_finite_weights, read_header

    rows = torch.tensor([_rows(values)], dtype=torch.float64)
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
