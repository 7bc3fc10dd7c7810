"""Published figures, one row a run, as the authors' public results give them.

`positional.csv`: Back de Luca et al., "Positional Attention: Expressivity and Learnability of Algorithmic Computation",
ICML 2025 (arXiv 2410.01686), columns experiment, task, arch, n, samples, layers_or_width, scale_c, split, run, loss.

`khop16.csv`: Sanford, Hsu, Telgarsky, "Transformers, parallel computation, and logarithmic depth", 2024: token error by
depth and hops, 4 heads.

The figures are the authors' and not covered by this project's licence.
"""

from functools import cache
from importlib import resources

import pandas as pd

from posattn import checks

#: What our tasks are called there.
NAMES = {
    "max-subarray": "max_sum_subarray",
    "mixed-min": "min",
    "mixed-sum": "sum",
    "mixed-multitask": "multitask",
}


#: The files of published figures.
TABLES = ("positional.csv", "khop16.csv")


def table(name: str) -> pd.DataFrame:
    """Every row of a file of published figures."""
    return _read(checks.choice("table of published figures", name, TABLES))


@cache
def _read(name: str) -> pd.DataFrame:
    with (resources.files("posattn.published") / name).open() as file:
        return pd.read_csv(file)


def losses(experiment: str, task: str, arch: str, test_set: str, **where: int | str) -> list[float]:
    """The published losses of one point, one a run: `test_set` is "validation" or "c=3"; none: an empty list.

    >>> import statistics
    >>> f"{statistics.median(losses('scale', 'sum', 'positional', 'c=10')):.4f}"
    '0.0585'
    """
    for name, value in (("experiment", experiment), ("task", task), ("arch", arch), ("test_set", test_set)):
        checks.text(name, value)
    rows = table("positional.csv")
    for column in where:
        checks.choice("column of the published figures", column, rows.columns)
    chosen = (rows["experiment"] == experiment) & (rows["task"] == NAMES.get(task, task)) & (rows["arch"] == arch)
    if test_set == "validation":
        chosen &= rows["split"] == "val"
    elif test_set.startswith("c="):
        chosen &= (rows["split"] == "test") & (rows["scale_c"] == float(test_set.removeprefix("c=")))
    else:
        return []
    for column, value in where.items():
        chosen &= rows[column] == value
    return [float(loss) for loss in rows["loss"][chosen]]


def khop_accuracy(layers: int, test_set: str) -> list[float]:
    """The published share of right letters at a depth, for a test set "k=4"; none: an empty list.

    >>> khop_accuracy(3, "k=4")
    [0.85]
    """
    checks.text("test_set", test_set)
    rows, layers = table("khop16.csv"), checks.whole("layers", layers, least=1)
    chosen = (rows["layers"] == layers) & ("k=" + rows["hops"].astype(str) == test_set)
    return [1 - float(error) for error in rows["error"][chosen]]
