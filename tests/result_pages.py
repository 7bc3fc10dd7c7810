"""What tests of pages of results share: the committed rows, and how pages write numbers."""

import csv
import json
import re
import statistics
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PAGE = (RESULTS.parent / "results.md").read_text()


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


def told(pattern: str, text: str) -> list[float]:
    """The numbers of a sentence, in which each is shown as #."""
    number = r"([\d.,]*\d(?:e-?\d+)?)"
    found = re.search(re.escape(pattern).replace(r"\#", number), " ".join(text.split()))
    assert found, pattern
    return [read(shown) for shown in found.groups()]


def tabled(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """A page's table: its rows' tasks, second cells and other cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    task = ""
    for line in lines:
        first, second, *cells = (cell.strip() for cell in line.split("|")[1:-1])
        task = first or task
        yield task, second, cells


def section(title: str) -> str:
    return next(part for part in PAGE.split("\n## ") if part.startswith(title))


def last_training_loss(folder: Path) -> float:
    """The mean training loss of a result's last epoch."""
    scores = json.loads((folder / "metrics.json").read_text())["scores"]
    return next(score["loss"] for score in scores if score["set"] == "train")


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    return folder
