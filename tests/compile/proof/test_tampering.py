"""One stored number changed: refused, or accepted and harmless. `benchmarks/tampering.py` does it a thousand times."""

import importlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compile.models import library_model

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
tampering: Any = importlib.import_module("tampering")


@pytest.mark.parametrize(
    ("name", "length"), [("cumsum", 4), ("sort", 2), ("cummin", 5), ("permute", 5), ("broadcast", 4)]
)
def test_a_change_of_one_number_is_refused_or_harmless(name, length, tmp_path):
    made, rng = library_model(name, length), np.random.default_rng(length)
    found = Counter(tampering.verdict(made, tampering.drawn_change(made, rng), tmp_path) for _ in range(10))
    assert found["HARMFUL"] == 0
    assert found["refused by both"] >= 2


def test_changes_reach_every_tensor_and_move_zeros_and_others():
    made, rng = library_model("argsort", 3), np.random.default_rng(0)
    drawn = [tampering.drawn_change(made, rng) for _ in range(400)]
    assert {change.tensor for change in drawn} == set(made.model.weights())
    zeros = [change for change in drawn if change.before == 0]
    others = [change for change in drawn if change.before != 0]
    assert len(zeros) > 100 < len(others)
    assert all(1e-8 < abs(change.after) <= 1 for change in zeros)
    last = [c for c in others if c.after == np.nextafter(np.float32(c.before), np.float32(c.after))]
    assert last
    assert all(0 < abs(c.after - c.before) <= 1.0001 * abs(c.before) for c in others)


def test_a_changed_model_differs_in_that_number_alone():
    made = library_model("sort", 4)
    change = tampering.Change("mlp_in_weight", (0, 1, 2), 0.0, 0.5)
    before, after = made.model.weights(), tampering.changed(made, change).model.weights()
    moved = {name: int((before[name] != after[name]).sum()) for name in before}
    assert {name: count for name, count in moved.items() if count} == {"mlp_in_weight": 1}


def test_harm_is_noticed_in_outputs_and_in_selection():
    made = library_model("cumsum", 4)
    wrong = tampering.changed(made, tampering.Change("mlp_out_weight", (0, 0, 0), 1.0, 1.01))
    assert not tampering.harmless(made, wrong, 1e-3)
    place = divmod(int(made.model.weights()["query_weight"][0].abs().argmax()), 3)
    elsewhere = tampering.changed(made, tampering.Change("query_weight", (0, *place), 1.0, 0.0))
    assert not tampering.harmless(made, elsewhere, 1e9)
    assert tampering.harmless(made, made, None)
