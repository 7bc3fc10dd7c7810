"""The figures on the page about symmetry and length are those of the committed rows."""

import statistics
from collections import defaultdict

import pytest

from posattn.studies.length.length_scale import KINDS
from result_pages import RESULTS, read, rows, shows

PAGE = (RESULTS.parent / "symmetry.md").read_text(encoding="utf-8")


def test_errors_of_looped_models_on_their_page_are_those_of_the_rows():
    found = defaultdict(list)
    for row in rows("length-scale"):
        found[row["task"], row["arm"], row["test_set"]].append(float(row["value"]))
    table = PAGE.split("## What was run")[1].split("### ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(lines) == 32
    task = ""
    for line in lines:
        name, size, *cells = (cell.strip() for cell in line.split("|")[1:-1])
        task = name or task
        arm = " + ".join(KINDS[task].symmetry)
        rough, polished = (found[task, arm + what, set_named(size)] for what in ("", ", polished"))
        assert len(rough) == len(polished) == 10
        wanted = (statistics.median(rough), max(rough), max(polished))
        assert [float(cell) for cell in cells] == [pytest.approx(value, rel=0.051) for value in wanted]


def set_named(size: str) -> str:
    """The test set that the page calls so: "64 nodes, ring" is "nodes 64, ring"."""
    if size == "2²⁰":
        return f"length {2**20}"
    number, *more = size.replace(",", "", 1 if "nodes" not in size else 0).split(" nodes")
    if not more:
        return f"length {number.split(' ')[0]}"
    return f"nodes {number}{more[0].replace('1,000', '1000')}"


def test_errors_of_other_models_are_those_of_the_rows():
    found = defaultdict(list)
    for row in rows("length-scale"):
        found[row["task"], row["arm"], row["test_set"]].append(float(row["value"]))
    table = PAGE.split("What they reach at the paper preset")[1].split("## ")[0]
    head, _, *lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")
    ]
    assert len(lines) == 12
    for name, *cells in lines:
        for where, cell in zip(head[1:], cells, strict=True):
            task, size = where.split(", ")
            arm = " + ".join(KINDS[task].symmetry) if name.startswith("all") else name.strip("`")
            values = found[task, arm, set_named(size)]
            if cell == "–":
                assert not values
                continue
            median, worst = (float(part) for part in cell.rstrip(")").split(" ("))
            assert len(values) == 10
            assert median == pytest.approx(statistics.median(values), rel=0.051)
            assert worst == pytest.approx(max(values), rel=0.051)


@pytest.mark.parametrize(
    ("task", "arm", "wanted"),
    [
        ("sum", "scale", 2340),
        ("min", "scale + shift", 200),
        ("median", "scale + shift", 20),
        ("sort", "scale + shift", 40),
        ("max-subarray", "scale", 48),
    ],
)
def test_models_that_know_their_symmetry_lie_below_the_published_positional_ones(task, arm, wanted):
    published = {
        row["published_median"] for row in rows("symmetry") if (row["task"], row["test_set"]) == (task, "c=10")
    }
    ours = [
        float(row["value"])
        for row in rows("symmetry")
        if (row["task"], row["arm"], row["test_set"]) == (task, arm, "c=10")
    ]
    assert len(ours) == 3
    assert float(published.pop()) / statistics.median(ours) >= wanted


def test_losses_of_models_with_shift_on_their_page_are_those_of_the_rows():
    found, published = defaultdict(list), {}
    for row in rows("symmetry"):
        found[row["task"], row["arm"], row["test_set"]].append(float(row["value"]))
        if row["test_set"] == "c=10":
            published[row["task"]] = float(row["published_median"])
    told = PAGE.split("## At the paper's sizes")[1].split("\n## ")[0]
    lines = [line for line in told.splitlines() if line.startswith("|")][2:]
    assert len(lines) == 8
    task = ""
    for line in lines:
        name, arm, near, far, theirs, below, *shifted = (cell.strip() for cell in line.split("|")[1:-1])
        task = name or task
        assert shows(near, tuple(found[task, arm, "c=1"]))
        assert shows(far, tuple(found[task, arm, "c=10"]))
        assert read(theirs) == pytest.approx(published[task], rel=0.051)
        assert read(below) == pytest.approx(published[task] / statistics.median(found[task, arm, "c=10"]), rel=0.02)
        for test_set, cell in zip(("shift 10", "shift 1000"), shifted, strict=True):
            assert shows(cell, tuple(found[f"{task}, shifted", arm, test_set]))
    costs = [
        statistics.median(found[f"{of}, shifted", "scale", "shift 1000"]) / statistics.median(found[of, "scale", "c=1"])
        for of in ("min", "median", "sort")
    ]
    assert (min(costs), max(costs)) == pytest.approx((1_900, 76_000), rel=0.02)


def test_the_readme_says_how_far_both_models_are_off():
    readme = (RESULTS.parents[1] / "README.md").read_text(encoding="utf-8")
    found = defaultdict(list)
    for row in rows("length-scale"):
        if row["task"] == "sort":
            found[row["arm"], row["test_set"]].append(float(row["value"]))
    near, far = (statistics.median(found["standard, RoPE", f"length {n}"]) for n in (1024, 16_384))
    assert f"is off by {near:.2f} at 1,024 and by {far:.2f} at 16,384" in readme
    assert f"**{max(found['scale + shift', 'length 65536']):.1e}**".replace("e-0", "e-") in readme
