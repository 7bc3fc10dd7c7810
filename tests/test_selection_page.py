"""Token selection's results, and what docs/selection.md says of them."""

import statistics
from collections import defaultdict

import pytest
import torch

from posattn import studies, tasks
from posattn.studies.core import results
from posattn.studies.positional.numeric_protocol import RANGE
from posattn.theory import selection
from result_pages import RESULTS, rows, shows, tabled, unpacked


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


@pytest.fixture(scope="module")
def placed() -> dict[tuple[str, str, int], list[float]]:
    """Losses with stochastic and with fixed places, by task, arm and length."""
    values = defaultdict(list)
    for row in rows("stochastic-length"):
        values[row["task"], row["arm"].strip('"'), int(row["x"])].append(float(row["value"]))
    return values


def test_losses_with_stochastic_places_on_the_page_are_those_of_the_rows(placed):
    page = (RESULTS.parent / "selection.md").read_text()
    shown = list(tabled(page.split("## One step further")[1]))
    lengths = (8, 10, 12, 16, 24, 32)
    assert len(shown) * len(lengths) == len(placed) == 48
    drawn = {"low": -RANGE, "high": RANGE, "generator": torch.Generator().manual_seed(0)}
    for length, *column in zip(lengths, *(cells for _, _, cells in shown), strict=True):
        squares = {
            task: tasks.get(task).sample(100_000, length=length, **drawn)[1].square().mean().item()
            for task in studies.get("stochastic-length").tasks
        }
        for (task, arm, _), cell in zip(shown, column, strict=True):
            ours = placed[task, arm, length]
            assert len(ours) == 3
            assert shows(cell, [100 * value / squares[task] for value in ours])
            if arm == "stochastic" and task in ("min", "max"):
                assert max(ours) < 0.002 * squares[task]


def test_fixed_places_are_better_up_to_the_trained_length_and_worse_past_it(placed):
    medians = {key: statistics.median(values) for key, values in placed.items()}
    times = {(task, at): medians[task, "fixed", at] / medians[task, "stochastic", at] for task, _, at in medians}
    past = {key: value for key, value in times.items() if key[1] > 8}
    assert min(past.values()) == pytest.approx(3.8, rel=0.01) == past["sort", 10]
    assert max(past.values()) == pytest.approx(113, rel=0.01) == past["sum", 12]
    at_32 = {task: value for (task, at), value in times.items() if at == 32}
    assert [at_32[task] for task in sorted(at_32, key=at_32.__getitem__)] == pytest.approx([9.8, 26, 33, 33], rel=0.02)
    assert (min(at_32, key=at_32.__getitem__), max(at_32, key=at_32.__getitem__)) == ("sum", "max")
    cost = {task: 1 / value for (task, at), value in times.items() if at == 8}
    assert cost == pytest.approx({"sum": 98, "min": 2.0, "max": 1.8, "sort": 2.9}, rel=0.03)
