"""The section of docs/results.md on hops is what the committed stores and the published figures say."""

import json
import statistics
from collections import defaultdict

import pytest

from posattn.nn import HopTables, HopTablesModel
from posattn.published import khop_accuracy
from posattn.studies.core import results
from result_pages import RESULTS, rows, section, tabled, unpacked


def test_hops_up_to_sixteen_have_their_published_figures():
    shown = list(tabled(section("k-hop").split("### Up to 16 hops")[1].split("### ")[0]))
    assert [int(layers) for layers, _, _ in shown] == [2, 3, 4, 5, 6]
    for layers, _, cells in shown:
        for hops, cell in zip((1, 2, 4, 8, 16), cells, strict=True):
            [theirs] = khop_accuracy(int(layers), hops)
            assert float(cell.removesuffix(" %")) == pytest.approx(100 * theirs, abs=1e-9)


def test_three_standard_layers_are_enough_with_either_form_of_gelu(tmp_path):
    found = results.results("khop-depth", unpacked(RESULTS / "khop-tanh" / "store.tar.xz", tmp_path))
    points = {point.x: point for point in found.points if point.test_set == "validation"}
    assert all("tanh" in remark or "erf" not in remark for remark in found.study.remarks())
    expected = {1: 0.671, 2: 0.867, 3: 0.9955}
    assert {x: point.median for x, point in points.items()} == pytest.approx(expected, abs=5e-4)
    assert min(points[3].ours) > 0.99


def test_hops_need_three_standard_layers_and_more_positional_ones(tmp_path):
    found = results.results("khop-depth", unpacked(RESULTS / "khop" / "store.tar.xz", tmp_path))
    assert found.record.choices == {"gelu": "erf", "standard_layers": "4"}
    points = {(point.arm, point.x): point.ours for point in found.points if point.test_set == "validation"}
    assert sorted(points) == [("positional", n) for n in range(1, 9)] + [("standard", n) for n in range(1, 5)]
    assert all(len(seeds) == 3 for seeds in points.values())
    assert min(points["standard", 3]) > 0.99
    assert statistics.median(points["standard", 3]) == pytest.approx(0.9994, abs=5e-5)
    assert max(points["positional", 3]) < 0.99
    assert statistics.median(points["positional", 3]) == pytest.approx(0.8595, abs=5e-5)
    assert max(max(points["positional", layers]) for layers in range(1, 9)) < 0.99
    unseen = [max(point.ours) for point in found.points if point.test_set == "held-out letters"]
    assert max(unseen) == pytest.approx(0.071, abs=5e-4)
    rows_of = {(row["arm"], float(row["x"]), row["test_set"], float(row["value"])) for row in rows("khop/khop-depth")}
    assert rows_of == {(p.arm, p.x, p.test_set, value) for p in found.points for value in p.ours}


def test_three_hops_are_learned_by_tables_in_ten_layers(tmp_path):
    folder = unpacked(RESULTS / "khop-tables" / "store.tar.xz", tmp_path)
    sets = ("validation", "k=3", "held-out letters")
    found = defaultdict(dict)
    for study in ("khop-depth", "khop-ood"):  # accuracy, then cross-entropy
        for point in results.results(study, folder).points:
            assert (point.arm, point.x, point.seeds) == ("by tables", 10, (0, 1, 2))
            for seed, value in zip(point.seeds, point.ours, strict=True):
                found[seed][study, point.test_set] = value
    shown = list(tabled(section("k-hop").split("### Learned: three hops in 10 layers")[1]))
    assert [int(seed) for seed, _, _ in shown] == sorted(found)
    for seed, validation, cells in shown:
        held = found[int(seed)]
        assert [validation, *cells[:2]] == ["100 %"] * 3
        assert [held["khop-depth", name] for name in sets] == [1.0] * 3  # not one letter is wrong
        assert [float(cell) for cell in cells[2:]] == pytest.approx([held["khop-ood", name] for name in sets], abs=5e-6)
    trials = [json.loads(path.read_text()) for path in folder.glob("*/trial.json")]
    assert [trial["evaluation"]["samples"] * 98 for trial in trials] == [245_000] * 3
    took = [json.loads(path.read_text())["seconds"] for path in folder.glob("*/metrics.json")]
    assert took == pytest.approx([840] * 3, abs=0.5)  # of all three together
    assert sum(weight.numel() for weight in HopTablesModel().parameters()) == 275
    assert HopTables().layers(99) == 10
