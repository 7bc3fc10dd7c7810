"""Published figures, one row per run, as the authors' public results give them.

`positional.csv`: Back de Luca et al., "Positional Attention: Expressivity and Learnability of Algorithmic Computation",
ICML 2025 (arXiv 2410.01686), columns experiment, task, arch, n, samples, layers_or_width, scale_c, split, run, loss.
Of the sample study of mixed-type inputs, `mixed_type_sample`, it has validation and the scales 3 and 10.

`khop16.csv`: Sanford, Hsu, Telgarsky, "Transformers, parallel computation, and logarithmic depth", ICML 2024 (arXiv
2402.09268): error by depth and hops over the letters whose answer exists, 4 heads, one run each on fresh samples.

The figures are the authors' and not covered by this project's licence.
"""

import csv
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from posattn import checks
from posattn.errors import require

if TYPE_CHECKING:
    import pandas as pd

#: What our tasks are called there.
NAMES = {
    "max-subarray": "max_sum_subarray",
    "mixed-min": "min",
    "mixed-sum": "sum",
    "mixed-multitask": "multitask",
}
#: The files of published figures.
TABLES = ("positional.csv", "khop16.csv")
#: Columns of positional.csv by which the runs of one experiment are told apart.
COLUMNS = ("n", "samples", "layers_or_width")


def table(name: str) -> "pd.DataFrame":
    """Every row of a file of published figures."""
    checks.choice("table of published figures", name, TABLES)
    import pandas as pd

    with (resources.files("posattn.published") / name).open() as file:
        return pd.read_csv(file)


class _Run(NamedTuple):
    """One published loss."""

    n: int
    samples: int
    layers_or_width: str
    loss: float


@cache
def _runs() -> dict[tuple[str, str, str, float | None], list[_Run]]:
    """The runs by experiment, task, architecture and scale, which is None for validation."""
    found: dict[tuple[str, str, str, float | None], list[_Run]] = {}
    with (resources.files("posattn.published") / "positional.csv").open() as file:
        for row in csv.DictReader(file):
            if row["split"] not in ("val", "test"):
                continue
            scale = float(row["scale_c"]) if row["split"] == "test" else None
            run = _Run(int(row["n"]), int(row["samples"]), row["layers_or_width"], float(row["loss"]))
            found.setdefault((row["experiment"], row["task"], row["arch"], scale), []).append(run)
    return found


def losses(experiment: str, task: str, arch: str, *, scale: float | None, **where: int | str) -> list[float]:
    """The published losses at one point, one per run: on test inputs of a scale c, or, None, on the validation set.

    `where` are values of further columns. The list is empty where nothing was published.

    >>> import statistics
    >>> f"{statistics.median(losses('scale', 'sum', 'positional', scale=10)):.4f}"
    '0.0585'
    """
    for name, value in (("experiment", experiment), ("task", task), ("arch", arch)):
        checks.text(name, value)
    if scale is not None:
        require(checks.real("scale", scale) > 0, f"scale={scale!r}: it must be above 0, or None for validation.")
    for column in where:
        checks.choice("column of the published figures", column, COLUMNS)
    runs = _runs().get((experiment, NAMES.get(task, task), arch, scale), [])
    return [run.loss for run in runs if all(getattr(run, column) == value for column, value in where.items())]


def khop_accuracy(layers: int, hops: int) -> list[float]:
    """The published share of right letters, of those with an answer, at a depth and so many hops; none: an empty list.

    >>> khop_accuracy(3, 4)
    [0.85]
    """
    key = checks.whole("layers", layers, least=1), checks.whole("hops", hops, least=1)
    return [1 - error for error in _khop_errors().get(key, [])]


@cache
def _khop_errors() -> dict[tuple[int, int], list[float]]:
    found: dict[tuple[int, int], list[float]] = {}
    with (resources.files("posattn.published") / "khop16.csv").open() as file:
        for row in csv.DictReader(file):
            found.setdefault((int(row["layers"]), int(row["hops"])), []).append(float(row["error"]))
    return found
