"""What tests of pages of results share: the committed rows, and how pages write numbers."""

import csv
import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def rows(study: str) -> Iterator[dict[str, str]]:
    with (RESULTS / study / "figures.csv").open() as file:
        yield from csv.DictReader(file)


def read(shown: str) -> float:
    return float(shown.replace(",", ""))


def shows(cell: str, values: Sequence[float]) -> bool:
    """Whether a cell says "median (lowest … highest)" of these values, to two digits."""
    told = re.fullmatch(r"(\S+) \((\S+) … (\S+)\)", cell)
    assert told, cell
    exact = statistics.median(values), min(values), max(values)
    return [read(one) for one in told.groups()] == pytest.approx(exact, rel=0.051)
