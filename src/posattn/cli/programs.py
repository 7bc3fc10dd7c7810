"""Programs: list them, compile them, verify what was compiled."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from posattn.cli.app import LARGEST, Json, Plugin, app, pairs, path, plain
from posattn.errors import PosattnError, unknown

if TYPE_CHECKING:
    from posattn.compile import Compiled, Program


@app.command("programs")
def list_programs(
    show: Annotated[
        str | None, typer.Option(metavar="PROGRAM", help="Print a program as text, to start a FILE.pos from.")
    ] = None,
    length: Annotated[int, typer.Option(help="How many numbers the program that is shown works on.")] = 8,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """List the parallel programs that can be compiled to exact weights, with their cost at length 8.

    In Python: posattn.compile.compile(posattn.compile.library.get("sort", 16)).
    """
    from posattn import plugins
    from posattn.compile import compile, library

    plugins.load_all(plugin)
    if show is not None:
        plugins.provide("programs", show)
        found = str(library.get(show, length))
        print(json.dumps({"program": show, "text": found}) if as_json else found)
        return
    rows: list[dict[str, Any]] = []
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
    others = {name: package for name, package in plugins.installed("programs").items() if name not in library.PROGRAMS}
    if as_json:
        unknown_yet = dict.fromkeys(("computes", "layers", "nodes", "encoding", "encoding_width"))
        print(json.dumps([*rows, *({"program": name} | unknown_yet for name in others)]))
        return
    table = Table("program", "computes", "layers", "nodes", "encoding", title="Programs, compiled at length 8")
    for row in rows:
        name, computes, layers, nodes, encoding, width = map(str, row.values())
        table.add_row(name, escape(computes), layers, nodes, f"{encoding}, {width}")
    for name, package in others.items():
        table.add_row(name, f"installed by {package}", "–", "–", "–")
    Console().print(table)


@app.command("compile")
def compile_program(
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM|FILE.pos", help="A program, as in `posattn programs`, or a text file.")
    ],
    length: Annotated[
        int | None, typer.Option(help="How many numbers it works on; a text file says it itself.")
    ] = None,
    domain: Annotated[str, typer.Option(help="Inputs lie in ± this; x=1000,flag=1 for each of several.")] = "1000",
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the program, as operation=min or route=grid; repeatable.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="File to write; default: PROGRAM-LENGTH.safetensors or FILE.safetensors.", callback=path),
    ] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Compile a parallel program to the weights of a positional Transformer, verify it, and save both.

    Examples: posattn compile sort --length 16 --domain 1000 --out sort16.safetensors; posattn compile mine.pos
    """
    import torch

    from posattn import compile as compiler
    from posattn import plugins

    plugins.load_all(plugin)
    dtypes = {"float32": torch.float32, "float64": torch.float64}
    if dtype not in dtypes:
        raise unknown("dtype", dtype, dtypes)
    if program.endswith(".pos"):
        found, name = _from_text(program, length, option), Path(program).stem
    else:
        found, name = _from_library(program, length, program_options(option or [])), f"{program}-{length}"
    made = compiler.compile(found, domain=_domain(domain), dtype=dtypes[dtype]).verify()
    assert made.certificate is not None
    file = out or f"{name}.safetensors"
    if made.certificate.holds:  # what fails is not written
        made.save(file)
    _print_certificate(made, as_json, file if made.certificate.holds else None)


def _domain(text: str) -> float | dict[str, float]:
    """1000, or x=1000,flag=1."""
    if "=" not in text:
        return _bound(text, text)
    named = [part.partition("=") for part in text.split(",")]
    for name, _, _ in named:
        if [other for other, _, _ in named].count(name) > 1:
            raise PosattnError(f"--domain {text}: '{name}' is there twice. Give each input one bound.")
    return {name.strip(): _bound(value, text) for name, _, value in named}


def _bound(value: str, text: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise PosattnError(f"--domain {text}: write a number, as 1000, or one per input, as x=1000,flag=1.") from None


def _from_text(file: str, length: int | None, option: list[str] | None) -> "Program":
    """The program in a text file, which says its length itself."""
    from posattn.compile.program_text import read_program

    if option:
        raise PosattnError(f"--option {option[0]}: the program in '{file}' is written out. Leave it out.")
    found = read_program(path(file) or file)
    if length not in (None, found.length):
        raise PosattnError(f"--length {length}: the program in '{file}' has length {found.length}. Leave it out.")
    return found


def _from_library(name: str, length: int | None, options: dict[str, Any]) -> "Program":
    from posattn import plugins
    from posattn.compile import library
    from posattn.compile.programs.size_limits import check_memory

    plugins.provide("programs", name)
    if length is None:
        raise PosattnError(f"'{name}' needs its length: posattn compile {name} --length 16. (Text files end in .pos.)")
    if name in library.OURS and length >= 1:
        check_memory(name, length, str(options.get("route", "sort")))
    return library.get(name, length, **options)


def program_options(given: list[str]) -> dict[str, Any]:
    """operation=min, source=3, destinations=2,0,1: numbers where they look like numbers."""
    found: dict[str, Any] = {}
    for name, value in pairs(given).items():
        if name in ("name", "length"):
            raise PosattnError(f"--option {name}={value}: the program's {name} is not an option; give it by itself.")
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


@app.command("prove")
def prove_file(
    file: Annotated[str, typer.Argument(help="A file that `posattn compile` wrote.", callback=path)],
    seconds: Annotated[
        float | None, typer.Option(help="How long each step may take; what is not done by then is open.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove that a compiled model computes its program, and the program its specification, for every input.

    The proof is written into the file beside the certificate, if all of it stands. Exit code 1 where a step is refuted
    or open. Needs z3 and python-flint: pip install 'posattn[proof]'.

    Example: posattn compile sort --length 16 && posattn prove sort-16.safetensors
    """
    from posattn.compile import load

    made = load(file).proved(seconds=seconds)
    assert made.proof is not None
    if made.proof.holds:
        made.save(file)
    if as_json:
        print(json.dumps(plain(json.loads(made.proof.to_json()) | {"holds": made.proof.holds})))
    else:
        print(made.proof)
        if made.proof.holds:
            print(f"written: {file}")
    if not made.proof.holds:
        raise typer.Exit(1)
