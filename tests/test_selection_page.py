"""Token selection's results, and what docs/selection.md says of them."""

import json
import statistics
from collections import defaultdict
from functools import cache

import pytest
import torch

from posattn import studies, tasks
from posattn.studies.core import results
from posattn.studies.positional.numeric_protocol import RANGE
from posattn.theory import selection
from result_pages import RESULTS, rows, shows, tabled, told, unpacked

SECTION = (RESULTS.parent / "selection.md").read_text().split("## One step further")[1]


def test_no_trained_network_is_below_its_floor_and_selectors_are_below_a_hundredth():
    points = [(row["arm"], int(row["x"]), float(row["value"])) for row in rows("selection/sts-fcn")]
    networks = [(width, loss) for arm, width, loss in points if arm in ("one hidden layer", "deep")]
    assert len(networks) == 48
    for width, loss in networks:
        assert loss > selection.fcn_floor(width, T=20, q=3, d=5)
    for encoding, width in (("near-orthogonal", 37), ("stochastic", 69)):
        found = [loss for arm, at, loss in points if arm == f"selector, {encoding}" and at >= width]
        assert len(found) >= 6
        assert max(found) < 1e-2


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return unpacked(RESULTS / "selection" / "store.tar.xz", tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def convergence(store):
    points = results.results("sts-convergence", store).points
    assert all(len(point.ours) == 10 for point in points)
    return {(point.arm, point.test_set, point.x): point.median for point in points}


def test_one_hot_training_is_the_closed_form_and_lags_where_all_blocks_are_trained(convergence):
    def ratio(arm: str, step: int) -> float:
        return convergence[arm, "validation", step] / convergence["closed form, one-hot", "validation", step]

    for step in range(0, 10_001, 1000):
        assert abs(ratio("one-hot, surviving blocks", step) - 1) < 0.01  # the page says 0.6 %
    assert ratio("one-hot", 6000) == pytest.approx(11.96, abs=0.01)
    assert ratio("one-hot", 10_000) == pytest.approx(1.51, abs=0.01)


def test_stochastic_encodings_converge_and_their_cosines_tend_to_one(convergence):
    assert convergence["stochastic", "validation", 10_000] < 0.02
    assert convergence["stochastic", "cosine W", 10_000] > 0.99
    assert convergence["stochastic", "cosine V", 10_000] > 0.99


def test_stochastic_lies_three_times_below_fixed_on_longer_inputs(store):
    points = results.results("sts-length", store).points
    medians = {(point.arm, point.test_set, point.x): point.median for point in points}
    for length, said in ((250, 17.9), (300, 12.2), (350, 8.3), (400, 6.3)):
        ratios = [
            medians["fixed near-orthogonal", f"T={length}", step] / medians["stochastic", f"T={length}", step]
            for step in range(30_000, 100_001, 1000)
        ]
        assert min(ratios) == pytest.approx(said, rel=0.01)


@cache
def mean_squares(length: int) -> dict[str, float]:
    """The mean square of every task's targets."""
    generator = torch.Generator().manual_seed(length)
    drawn = {"length": length, "low": -RANGE, "high": RANGE, "generator": generator}
    return {
        task: tasks.get(task).sample(100_000, **drawn)[1].square().mean().item()
        for task in studies.get("stochastic-length").tasks
    }


@pytest.fixture(scope="module")
def placed() -> dict[tuple[str, str, int], list[float]]:
    """Losses with stochastic and with fixed places, by task, arm and length."""
    values = defaultdict(list)
    for row in rows("stochastic-length"):
        values[row["task"], row["arm"].strip('"'), int(row["x"])].append(float(row["value"]))
    return values


def test_losses_with_stochastic_places_on_the_page_are_those_of_the_rows(placed):
    shown = list(tabled(SECTION))
    lengths = (8, 10, 12, 16, 24, 32)
    assert len(shown) * len(lengths) == len(placed) == 48
    for length, *column in zip(lengths, *(cells for _, _, cells in shown), strict=True):
        squares = mean_squares(length)
        for (task, arm, _), cell in zip(shown, column, strict=True):
            ours = placed[task, arm, length]
            assert len(ours) == 3
            assert shows(cell, [100 * value / squares[task] for value in ours])
            if arm == "stochastic" and task in ("min", "max"):
                assert max(ours) < 0.002 * squares[task]


def test_sentences_on_stochastic_places_have_the_figures_of_the_rows(placed):
    medians = {key: statistics.median(values) for key, values in placed.items()}
    times = {(task, at): medians[task, "fixed", at] / medians[task, "stochastic", at] for task, _, at in medians}
    past = {key: value for key, value in times.items() if key[1] > 8}
    least, most, sums, maxima = told(
        "is # (sort, 10 numbers) to # times (sum, 12) as large, and # (sum) to # times (max) at 32", SECTION
    )
    assert (min(past, key=past.__getitem__), max(past, key=past.__getitem__)) == (("sort", 10), ("sum", 12))
    assert [least, most] == pytest.approx([past["sort", 10], past["sum", 12]], rel=0.02)
    at_32 = {task: times[task, 32] for task, at in times if at == 32}
    assert (min(at_32, key=at_32.__getitem__), max(at_32, key=at_32.__getitem__)) == ("sum", "max")
    assert [sums, maxima] == pytest.approx([at_32["sum"], at_32["max"]], rel=0.02)
    overview = (RESULTS.parent / "results.md").read_text()
    assert told("trained on up to 8, medians # to # times below those with fixed places", overview) == [sums, maxima]
    cheap, dear, summed = told("loss is # (max) to # (sort) times the fixed model's, on sum # times.", SECTION)
    assert [1 / times[task, 8] for task in ("max", "sort", "sum")] == pytest.approx([cheap, dear, summed], rel=0.03)
    assert 1 / times["max", 8] < 1 / times["min", 8] < 1 / times["sort", 8]


def test_losses_with_stochastic_places_grow_with_length_as_the_page_says(placed):
    grown = {
        task: statistics.median(placed[task, "stochastic", 32])
        / mean_squares(32)[task]
        / (statistics.median(placed[task, "stochastic", 8]) / mean_squares(8)[task])
        for task in studies.get("stochastic-length").tasks
    }
    least, most = told("at 32 numbers the share is # (sort) to # (min) times what it is at 8", SECTION)
    assert [grown["sort"], grown["min"]] == pytest.approx([least, most], rel=0.05)
    assert grown["sort"] < grown["max"] < grown["min"]
    assert [grown["sum"]] == pytest.approx(told("6.0 % at 32, # times what it is at 8", SECTION), rel=0.05)


def test_the_seconds_of_stochastic_places_are_those_of_the_store(tmp_path):
    folder = unpacked(RESULTS / "stochastic-length" / "store.tar.xz", tmp_path)
    took = {json.loads(path.read_text())["seconds"] for path in folder.glob("*/metrics.json")}
    assert told("cores: # s (sum and min) and # s (max and sort)", SECTION) == pytest.approx(sorted(took), abs=1)
