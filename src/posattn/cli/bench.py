"""How fast fleets train here."""

import json
from typing import Annotated

import typer
from rich.table import Table

from posattn.cli.app import LARGEST, MOST_SEEDS, Device, Json, app
from posattn.cli.output import print_table


@app.command()
def bench(
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="float32, tf32, bf16 or float64.")] = "float32",
    fleet: Annotated[
        list[int] | None, typer.Option(help="Fleet size to measure; repeatable. Default 1 10 50 100.", max=MOST_SEEDS)
    ] = None,
    batch: Annotated[int, typer.Option(help="Samples in a batch.", max=LARGEST)] = 1000,
    as_json: Json = False,
) -> None:
    """Measure how fast fleets train, as ratios to a plain loop over one model in the same run.

    The share column says how much of the machine's measured matrix-product rate the arithmetic that the model needs
    amounts to. Takes a minute on a GPU and several on a CPU.
    """
    from posattn.bench import bench as measure

    found = measure(device=device, precision=precision, sizes=tuple(fleet or (1, 10, 50, 100)), batch=batch)
    if as_json:
        print(json.dumps(found))
        return
    table = Table(
        "model", "fleet", "ms per replica step", "plain loop, ms", "ratio", "share of matmul rate",
        title=f"{found['device']}, {found['precision']}, batch {found['batch']}, "
        f"matrix products at {found['matmul_tflops']:.3g} TFLOP/s",
    )  # fmt: skip
    for one in found["measurements"]:
        table.add_row(
            one["model"],
            str(one["fleet"]),
            f"{one['milliseconds']:.3g}",
            f"{one['plain_milliseconds']:.3g}",
            f"{one['ratio']:.2f}×",
            f"{one['matmul_share']:.0%}",
        )
    print_table(table)
