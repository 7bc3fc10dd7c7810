"""Tables as files: what is in them can be read back by any reader of the format."""

import csv
import io
import json
import math

import pytest

from posattn import studies
from posattn.report import table
from posattn.studies.core.points import Point
from posattn.studies.core.record import Record
from posattn.studies.core.results import Results

ODD = ['say "aye"', "a, b", 'both, "of them"', "two\nlines", "a | b", "back\\slash", "‖ ≥ ½", ""]


def made(arm: str) -> Results:
    points = (
        Point("sum", arm, "c=3", 3.0, (0.1 + 0.2, math.inf), (1e-17, 1 / 3), (0, 1)),
        Point("sum", arm, "c=1", 1.0, (1.0, 2.0), (), (0, 1)),
    )
    record = Record(study="ood-scale", preset="smoke", tasks=("sum",), seeds={arm: 2})
    return Results(studies.get("ood-scale"), record, points, (), ("cpu",), (), (), [], {})


@pytest.mark.parametrize("arm", ODD)
def test_a_csv_file_reads_back_whatever_a_model_is_called(arm):
    rows = list(csv.DictReader(io.StringIO(table.csv(made(arm)), newline="")))
    assert [row["arm"] for row in rows] == [arm] * 4
    assert [float(row["value"]) for row in rows] == [0.1 + 0.2, math.inf, 1.0, 2.0]
    assert [row["published_median"] for row in rows] == [repr((1e-17 + 1 / 3) / 2)] * 2 + [""] * 2
    assert [(row["study"], row["task"], row["x"], row["seed"]) for row in rows[:2]] == [
        ("ood-scale", "sum", "3", "0"),
        ("ood-scale", "sum", "3", "1"),
    ]


@pytest.mark.parametrize("arm", ODD)
def test_json_reads_back_whatever_a_model_is_called(arm):
    first, _ = json.loads(json.dumps(table.rows(made(arm)), allow_nan=False))
    assert (first["model"], first["ours"], first["lowest"]) == (arm, None, 0.1 + 0.2)


@pytest.mark.parametrize("arm", [arm for arm in ODD if "\n" not in arm])
def test_a_cell_of_a_markdown_table_ends_where_it_should(arm):
    names, _, first, *_ = table.markdown(made(arm)).splitlines()
    plain = first.replace(r"\\", "\1").replace(r"\|", "\2")
    cells = [cell.strip().replace("\1", "\\").replace("\2", "|") for cell in plain.split("|")[1:-1]]
    assert len(cells) == names.count("|") - 1
    assert cells[:3] == ["sum", arm, "c=3"]
