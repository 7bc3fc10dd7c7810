"""What theory says about a model."""

import json
import math
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from posattn.cli.app import LARGEST, Json, ModelFile, Plugin, app, plain
from posattn.cli.output import print_table
from posattn.errors import PosattnError, require


@app.command("resources")
def print_resources(
    machines: Annotated[int | None, typer.Option(help="N machines of an MPC program.")] = None,
    words: Annotated[int, typer.Option(help="s words that each machine may send in a round.")] = 1,
    rounds: Annotated[int, typer.Option(help="R rounds.")] = 1,
    nodes: Annotated[int | None, typer.Option(help="N nodes of a standard Transformer.")] = None,
    layers: Annotated[int, typer.Option(help="L layers of that Transformer.")] = 1,
    as_json: Json = False,
) -> None:
    """What simulating an MPC program or a standard Transformer costs: the theorem's figures beside the compiler's.

    Examples: posattn resources --machines 16 --rounds 2; posattn resources --nodes 9 --layers 4
    """
    from posattn.compile import resources

    if (machines is None) == (nodes is None):
        raise PosattnError("name either --machines, for an MPC program, or --nodes, for a standard Transformer.")
    if machines is not None:
        found, title = resources.mpc_cost(machines, words, rounds), f"MPC: N = {machines}, s = {words}, R = {rounds}"
    else:
        assert nodes is not None
        found, title = resources.transformer_cost(nodes, layers), f"standard Transformer: N = {nodes}, L = {layers}"
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
        return
    table = Table("", "nodes", "layers", "heads", title=title)
    for one in found:
        table.add_row(one.what, str(one.nodes), str(one.layers), "–" if one.heads is None else str(one.heads))
    print_table(table)


@app.command("bounds")
def print_bounds(
    file: ModelFile,
    samples: Annotated[
        int, typer.Option(help="m: how many samples it was, or would be, trained on.", max=LARGEST)
    ] = 30_000,
    delta: Annotated[float, typer.Option(help="δ: the probability that the bound fails.")] = 0.05,
    constant: Annotated[float, typer.Option(help="c in the exponent c·L; the paper leaves it open.")] = 1.0,
    task: Annotated[
        str | None, typer.Option(help="For a homogeneous model: a task to predict its error on, at other scales.")
    ] = None,
    scales: Annotated[list[float] | None, typer.Option("--scale", help="A scale c for --task; repeatable.")] = None,
    length: Annotated[
        int | None, typer.Option(help="For a looped model: the length, or the side of a graph or table.", max=LARGEST)
    ] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """What theory says about a saved model: norms, the terms of Theorem 6.1, and Lipschitz bounds.

    The bound's hidden constants are not public, so its terms are for comparing models with each other; the Lipschitz
    bounds need no unknown constant. Of a looped model: the law of its step, and the largest error of any input.

    Examples: posattn bounds runs/3f2a…/weights.safetensors; posattn bounds looped.safetensors --length 65536
    """
    from posattn import plugins
    from posattn.nn import load
    from posattn.theory import report

    plugins.load_all(plugin)
    if scales and task is None:
        raise PosattnError(
            f"--scale {scales[0]:g}: errors at a scale are those on a task. Add --task, or leave it out."
        )
    found = report.about(
        load(file), samples=samples, delta=delta, constant=constant, task=task, length=length,
        scales=tuple(scales or (2.0, 5.0, 10.0)),
    )  # fmt: skip
    if length is None:
        _check_constant(constant, {name: value for name, (value, _) in found.items()})
    if as_json:
        print(json.dumps(plain(found)))
        return
    table = Table("quantity", "value", "what it is", title=file)
    for name, (value, meaning) in found.items():
        shown = "–" if value is None else value if isinstance(value, str) else f"{value:.4g}"
        table.add_row(name, shown, meaning)
    print_table(table)


def _check_constant(constant: float, values: dict[str, Any]) -> None:
    """Refuse a constant with which the terms are beyond floats, though they are logarithms already.

    Where a norm is 0, its logarithm is −inf with every constant: that is shown.
    """
    norms = [values[name] for name in ("spectral", "column", "query key") if name in values]
    terms = [values[name] for name in ("norm factor", "query key factor", "bound")]
    require(
        0.0 in norms or all(map(math.isfinite, terms)),
        f"--constant {constant:g}: the bound is 10 to a power that no float holds. Choose a smaller one, of order 1.",
    )
