"""The results in docs/ are what the pages say of them: read from the committed rows and stores, not from the text."""

import importlib
import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from posattn import studies, tasks
from posattn.engine import Store
from posattn.nn import Standard, model_of
from posattn.published import losses
from posattn.studies.core import record, results
from posattn.studies.core.results import Point
from posattn.studies.positional.numeric_protocol import TASKS, published_losses
from posattn.train import identity
from posattn.train.random_streams import stream
from result_pages import PAGE, RESULTS, read, rows, section, shows, tabled, unpacked

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
remaining: Any = importlib.import_module("remaining")


def test_the_table_on_top_has_every_study_and_its_links_lead_somewhere():
    table = PAGE.split("\n## ")[0]
    assert {name for name in studies.REGISTRY if f"[{name}](" in table} == set(studies.REGISTRY)
    for page, anchor in re.findall(r"\]\(([a-z]*(?:\.md)?)#([^)]+)\)", table):
        text = PAGE if not page else (RESULTS.parent / page).read_text(encoding="utf-8")
        titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
        assert anchor in {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


@pytest.fixture(scope="module")
def scale():
    """Every seed's loss and the published median, by task, model and test set."""
    found = defaultdict(list)
    published = {}
    for row in rows("ood-scale"):
        found[row["task"], row["arm"], row["test_set"]].append(float(row["value"]))
        if row["arm"] == "positional":
            published[row["task"], row["test_set"]] = float(row["published_median"])
    return found, published


def test_positional_medians_lie_within_a_factor_of_three_of_the_published_ones(scale):
    found, published = scale
    assert len(published) == 55
    for (task, test_set), reference in published.items():
        ours = found[task, "positional", test_set]
        assert len(ours) == 10
        assert 1 / 3 < statistics.median(ours) / reference < 3


def test_losses_over_the_scale_on_the_page_are_those_of_the_rows(scale):
    found, _ = scale
    lines = list(tabled(section("ood-scale").split("### Without biases")[0]))
    assert len(lines) == 30
    for at in range(0, len(lines), 3):
        (task, model, ours), (_, _, published), (_, _, ratios) = lines[at : at + 3]
        arm = model.removesuffix(", ours")
        for place, cells in zip((None, 2, 5, 10), zip(ours, published, ratios, strict=True), strict=True):
            values = found[task, arm, f"c={place}" if place else "validation"]
            theirs = losses("scale", task, arm, scale=place)
            assert shows(cells[0], values)
            assert shows(cells[1], theirs)
            assert read(cells[2]) == pytest.approx(statistics.median(values) / statistics.median(theirs), abs=0.0051)


@pytest.mark.parametrize(
    ("task", "wanted", "said"),
    [("sum", 300, 2340), ("min", 40, 85), ("median", 4, 5.5), ("sort", 12, 25), ("max-subarray", 30, 48)],
)
def test_homogeneous_models_lie_below_the_published_positional_ones(scale, task, wanted, said):
    found, published = scale
    ours = found[task, "homogeneous, decayed", "c=10"]
    assert len(ours) == len(found[task, "homogeneous", "c=10"]) == 10
    ratio = published[task, "c=10"] / statistics.median(ours)
    assert ratio > wanted
    assert ratio == pytest.approx(said, rel=0.02)


#: Stores that were written with ids of schema 1.
STORES = {
    "encodings": ("store.tar.xz", 45),
    "khop": ("store.tar.xz", 36),
    "ood-scale": ("store.tar.gz", 215),
    "selection": ("store.tar.xz", 180),
    "small-standard": ("store.tar.xz", 48),
}
#: Folders with the store and the rows of one study, and that study; those of `selection` and `khop` have several.
ROWS = {
    name: name
    for name in (
        "ablation",
        "accuracy",
        "encodings",
        "length-scale",
        "mixed-type",
        "ood-scale",
        "rotary",
        "sample-complexity",
        "sizes",
        "small-standard",
        "stochastic-length",
        "symmetry",
    )
}
ROWS |= {"khop-tables": "khop-depth", "khop-tanh": "khop-depth"}


@pytest.mark.parametrize("name", STORES)
def test_a_committed_store_has_the_ids_that_its_older_trials_are_read_to(name, tmp_path):
    archive, count = STORES[name]
    folder = unpacked(RESULTS / name / archive, tmp_path)
    assert studies.REGISTRY  # so that their kinds of trials can be read
    trials = {path.parent.name: path.read_bytes() for path in folder.glob("*/trial.json")}
    assert len(trials) == count
    assert all(json.loads(text)["schema"] == 2 for text in trials.values())
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert json.loads((folder / "store.json").read_text()) == {"format": 2}
    older = json.loads((Path(__file__).parent / "train" / "schema1.json").read_text())
    replayed = [held for held in older if held.get("store") == name]
    assert len(replayed) >= 2
    for held in replayed:
        trial = identity.read(json.dumps(held["trial"]))
        assert identity.read(trials[held["is"]]) == trial
        assert trial.id == held["is"]
    Store(folder).prepare()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert all(json.loads(path.read_text())["format"] >= 3 for path in folder.glob("studies/*.json"))
    assert all(record.read(Store(folder), study) for study in record.recorded(Store(folder)))


@pytest.mark.parametrize("name", ROWS)
def test_the_rows_beside_a_store_are_what_its_study_reads_from_it(name, tmp_path):
    folder = unpacked(next((RESULTS / name).glob("store.tar.*")), tmp_path)
    found = results.results(ROWS[name], folder)
    held = {path.parent.name for path in folder.glob("*/trial.json")}
    assert held == {case.seeded(seed).id for case, seeds in found.finished for seed in seeds}
    values = {
        (p.task, p.arm, p.test_set, seed): value
        for p in found.points
        for seed, value in zip(p.seeds, p.ours, strict=True)
    }
    told = {(row["task"], row["arm"], row["test_set"], int(row["seed"])): float(row["value"]) for row in rows(name)}
    assert {key: str(value) for key, value in told.items()} == {key: str(value) for key, value in values.items()}  # NaN


def test_every_committed_store_is_read_by_a_test():
    assert {path.parent.name for path in RESULTS.glob("*/store.tar.*")} == set(ROWS) | {"khop", "selection"}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """Every point of the studies that set other models beside those of ood-scale."""

    def points(name: str) -> dict[tuple[str, str, str], Point]:
        folder = unpacked(next((RESULTS / name).glob("store.tar.*")), tmp_path_factory.mktemp("store"))
        return {(point.task, point.arm, point.test_set): point for point in results.results(name, folder).points}

    return {name: points(name) for name in ("ablation", "encodings", "ood-scale", "rotary", "small-standard")}


@pytest.mark.parametrize(
    ("name", "borrowed", "test_sets", "count"),
    [
        ("ablation", {"M0": "standard", "M5": "positional"}, ("c=1", "c=3", "c=10"), 30),
        ("encodings", {"one-hot": "positional"}, ("c=1", "c=2", "c=5", "c=10"), 20),
    ],
)
def test_losses_on_the_page_are_those_of_the_stores_and_borrowed_ones_are_of_the_same_trials(
    studied, name, borrowed, test_sets, count
):
    shown = list(tabled(section(name)))
    assert len(shown) == count
    for task, arm, cells in shown:
        points = studied["ood-scale"] if arm in borrowed else studied[name]
        for test_set, cell in zip(test_sets, cells, strict=True):
            assert shows(cell, points[task, borrowed.get(arm, arm), test_set].ours)
    for task in TASKS:
        trials = {case.arm: case.trial for case in studies.get(name).cases(task, "paper")}
        scale = {case.arm: case.trial for case in studies.get("ood-scale").cases(task, "paper")}
        assert all(trials[arm].id == scale[theirs].id for arm, theirs in borrowed.items())


def floor_without_positions(name: str, lists: int = 1000, orders: int = 100) -> float:
    """The least loss of a model that cannot tell nodes apart: the variance of a number's target over all orders."""
    task, generator = tasks.get(name), torch.Generator().manual_seed(0)
    x = task.sample(lists, generator=generator)[0].squeeze(2)
    order = torch.rand(lists, orders, 8, generator=generator).argsort(2)
    y = task.target(x[:, None].expand(-1, orders, -1).gather(2, order).reshape(-1, 8, 1)).view(lists, orders, 8)
    own = torch.zeros_like(y).scatter(2, order, y)  # the target of the node that holds number i
    return float(own.var(dim=1).mean())


@pytest.mark.parametrize(
    ("task", "said"), [("sum", 3.9), ("min", 0.091), ("median", 0.052), ("sort", 0.19), ("max-subarray", 2.0)]
)
def test_without_positions_a_model_learns_the_mean_over_all_orders_and_no_more(studied, task, said):
    assert floor_without_positions(task) == pytest.approx(said, rel=0.15)  # 1000 lists: 6 % standard error
    assert 0.98 < studied["ablation"][task, "M2", "c=1"].median / said < 1.42


def test_positions_in_the_input_spoil_a_positional_model(studied):
    ratios = {
        (task, test_set): studied["ablation"][task, "M1", test_set].median
        / studied["ood-scale"][task, "positional", test_set].median
        for task in TASKS
        for test_set in ("c=1", "c=10")
    }
    in_range = [ratios[task, "c=1"] for task in TASKS]
    assert (min(in_range), max(in_range)) == pytest.approx((1.1, 4.5), rel=0.05)
    assert ratios["median", "c=10"] == min(ratios[task, "c=10"] for task in TASKS) == pytest.approx(10, rel=0.01)
    assert ratios["sum", "c=10"] == max(ratios.values()) == pytest.approx(6300, rel=0.01)


def test_attention_that_sees_values_and_positions_fails_as_one_that_sees_values_alone(studied):
    assert "250 (sort) to 29,000 (sum)" in section("ablation")
    assert "150 (max-subarray) to 3,500 (sum)" in section("ablation")
    said = {"M3": (("sort", 250), ("sum", 29_000)), "M4": (("max-subarray", 150), ("sum", 3_500))}
    for arm, ((least, low), (most, high)) in said.items():
        ratios = {}
        for task in TASKS:
            far = studied["ablation"][task, arm, "c=10"].median
            ratios[task] = far / studied["ood-scale"][task, "positional", "c=10"].median
            assert 0.2 < far / studied["ood-scale"][task, "standard", "c=10"].median < 20
        assert ratios[least] == min(ratios.values()) == pytest.approx(low, rel=0.04)
        assert ratios[most] == max(ratios.values()) == pytest.approx(high, rel=0.04)


def test_three_seeds_give_the_encodings_no_order(studied):
    found = studied["encodings"]
    assert max(max(point.ours) / min(point.ours) for point in found.values()) == pytest.approx(69, rel=0.01)
    arms = ("binary", "sinusoidal", "near-orthogonal")
    one_hot = {task: studied["ood-scale"][task, "positional", "c=10"] for task in TASKS}
    ratios = [found[task, arm, "c=10"].median / one_hot[task].median for task in TASKS for arm in arms]
    assert (min(ratios), max(ratios)) == pytest.approx((0.47, 8.8), rel=0.01)
    ranges = {(task, "one-hot"): point.ours for task, point in one_hot.items()}
    ranges |= {(task, arm): found[task, arm, "c=10"].ours for task in TASKS for arm in arms}
    above = [
        (task, arm, lower)
        for task, arm in ranges
        for other, lower in ranges
        if other == task and min(ranges[task, arm]) > max(ranges[task, lower])
    ]
    assert above == [("max-subarray", "binary", lower) for lower in ("sinusoidal", "near-orthogonal")]


def trained(task: str, losses: tuple[float, ...]) -> int:
    return sum(loss < 0.01 * {"sum": 18, "min": 0.85}[task] for loss in losses)


def test_small_standard_models_beside_the_published_ones(studied):
    found = studied["small-standard"]
    shown = list(tabled(section("small-standard")))
    assert len(shown) == 16
    for task, arm, (share, *cells) in shown:
        end = found[task, arm, "validation"]
        assert share == f"{trained(task, end.ours)} of 3 / {trained(task, end.published)} of 10"
        for test_set, cell in zip(("validation", "c=10"), cells, strict=True):
            point = found[task, arm, test_set]
            ours, published, ratio = re.split(r" / |, (?=[^ ]+$)", cell)
            assert shows(ours, point.ours)
            assert shows(published, point.published)
            assert read(ratio) == pytest.approx(point.ratio, rel=0.051)
    ratios = [point.ratio for point in found.values()]
    assert [sum(1 / by < ratio < by for ratio in ratios) for by in (3, 10)] == [112, 160]
    assert len(ratios) == 176
    far = {task: [p for (of, _, at), p in found.items() if (of, at) == (task, "c=10")] for task in ("sum", "min")}
    assert min(min(point.ours) for point in far["min"]) == pytest.approx(13.65, abs=0.005)
    shallow = [point for point in far["sum"] if point.arm.startswith("1 deep")]
    assert sum(loss < 0.1 for point in shallow for loss in point.ours) == 4
    assert sum(loss < 0.1 for point in shallow for loss in point.published) == 10


def test_narrow_deep_models_may_start_with_one_output_for_all_inputs():
    x = tasks.get("sum").sample(256, generator=torch.Generator().manual_seed(0))[0]
    for width, expected in ((2, [True, False, True]), (4, [True, False, True]), (16, [False, False, False])):
        model = Standard(length=8, layers=4, hidden_dim=width)
        answers = [model_of(model, model.init(stream(seed, "weights")))(x) for seed in range(3)]
        assert [bool((y.amax(0) - y.amin(0)).max() < 1e-7) for y in answers] == expected


def test_rotary_attention_beside_the_published_figures(studied):
    found, scale = studied["rotary"], studied["ood-scale"]
    assert all(len(point.ours) == 3 for point in found.values())
    shown = {(task, whose): cells for task, whose, cells in tabled(section("rotary"))}
    assert len(shown) == 15
    for task in TASKS:
        for at, test_set in enumerate(("validation", "c=2", "c=5", "c=10")):
            point = found[task, "rotary, input X‖P", test_set]
            assert shows(shown[task, "ours"][at], point.ours)
            assert shows(shown[task, "published"][at], point.published)
            assert read(shown[task, "ratio"][at]) == pytest.approx(point.ratio, abs=0.0051)
    off = [(point.task, point.ratio) for point in found.values() if not 1 / 3 < point.ratio < 3]
    assert (len(found), len(off), [task for task, _ in off].count("sum")) == (55, 15, 9)
    assert all(ratio < 1 for _, ratio in off)
    of_theirs = [
        scale[task, "positional", place].median / statistics.median(published)
        for task in TASKS
        for place, published in published_losses("rope_scale", task, "positional", tuple(range(1, 11))).items()
    ]
    assert len(of_theirs) == 55
    assert 1 / 2.8 < min(of_theirs) < 0.37 < max(of_theirs) < 2
    far = {task: found[task, "rotary, input X‖P", "c=10"].median for task in TASKS}
    of_standard = [far[task] / scale[task, "standard", "c=10"].median for task in TASKS]
    assert (min(of_standard), max(of_standard)) == pytest.approx((0.23, 1.06), abs=0.006)
    of_positional = {task: far[task] / scale[task, "positional", "c=10"].median for task in TASKS}
    assert of_positional["min"] == min(of_positional.values()) == pytest.approx(240, rel=0.02)
    assert of_positional["sort"] == max(of_positional.values()) == pytest.approx(670, rel=0.02)


def test_what_remains_is_what_no_store_has(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["remaining.py"])
    remaining.main()
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    shown = [line for line in section("What is not here yet").split("### ")[0].splitlines() if line.startswith("| ")][
        1:
    ]
    assert [[cells[0], *cells[2:]] for cells in (line.split(" | ") for line in shown)] == lines


def test_published_figures_that_wait_for_ours():
    """Variable lengths, sizes, mixed types, and mixed types by samples: every cell."""
    text = section("What is not here yet").split("### The published figures that wait for ours")[1]
    lengths, sizes, mixed, samples = (list(tabled(part)) for part in text.split("**")[2::2] if "|" in part)
    assert [len(part) for part in (lengths, sizes, mixed, samples)] == [10, 20, 1, 30]
    scales = (None, 1, 2, 5, 10)
    for task, model, cells in lengths:
        for scale, cell in zip(scales, cells, strict=True):
            published = losses("variable_length_scale", task, model, scale=scale)
            assert shows(cell, [loss / (1 if scale is None else 8) for loss in published])
    for task, which, cells in sizes:
        model, number = which.split(", ")
        for scale, cell in zip((None, 3), cells, strict=True):
            assert shows(cell, losses("size", task, model, scale=scale, n=int(number)))
    for task, model, cells in mixed:
        for scale, cell in zip(scales, cells, strict=True):
            assert shows(cell, losses("mixed_type_scale", f"mixed-{task}", model, scale=scale))
    for task, which, cells in samples:
        model, number = which.split(", ")
        for scale, cell in zip((None, 3, 10), cells, strict=True):
            count = int(number.replace(",", ""))
            assert shows(cell, losses("mixed_type_sample", f"mixed-{task}", model, scale=scale, samples=count))


def test_accuracies_on_the_page_are_those_of_the_store_and_the_models_keep_their_order(tmp_path):
    found = results.results("accuracy", unpacked(RESULTS / "accuracy" / "store.tar.xz", tmp_path))
    assert all(len(point.ours) == 3 for point in found.points)
    medians = {(point.task, point.arm, point.test_set): point.median for point in found.points}
    assert len(medians) == 5 * 3 * 10
    shown = {(task, arm): cells for task, arm, cells in tabled(section("accuracy"))}
    assert len(shown) == 15 + 2
    for (task, arm), cells in shown.items():
        told = [float(cell.replace("*", "").split("%")[0]) for cell in cells]
        ours = [100 * medians[task, arm, test_set] for test_set in ("c=1", "c=2", "c=5", "c=10") if "," not in arm]
        assert not ours or told == pytest.approx(ours, abs=0.051)
    for arm, points in (("positional", 9), ("standard", 7)):
        names = arm, f"published, {arm} (mean)"
        ours, theirs = ([float(cell.split("%")[0]) for cell in shown["median", name]] for name in names)
        assert points - 1 < max(abs(one - other) for one, other in zip(ours, theirs, strict=True)) < points
    for task in ("sum", "min", "median", "sort", "max-subarray"):
        for scale in range(3, 11):
            ordered = [medians[task, arm, f"c={scale}"] for arm in ("homogeneous", "positional", "standard")]
            assert ordered == sorted(ordered, reverse=True)


def test_the_gap_does_not_fall_with_samples_and_grows_unsteadily_with_depth():
    """As docs/theory.md says, in medians of two seeds; and by how much two seeds differ."""
    gaps: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in rows("bounds-vs-gap"):
        if row["test_set"] == "gap":
            sweep = gaps.setdefault((row["task"].removeprefix("sum by "), row["arm"]), {})
            sweep.setdefault(int(row["x"]), []).append(float(row["value"]))
    medians = {key: [statistics.median(sweep[x]) for x in sorted(sweep)] for key, sweep in gaps.items()}
    between_seeds = {key: max(max(two) / min(two) for two in sweep.values()) for key, sweep in gaps.items()}
    for arm, apart, seeds in (("standard", 7, 12), ("positional", 23, 52)):
        assert max(medians["samples", arm]) / min(medians["samples", arm]) == pytest.approx(apart, rel=0.03)
        assert between_seeds["samples", arm] == pytest.approx(seeds, rel=0.03)
    for arm, said, seeds in (
        ("standard", (2e-6, 2e-3, 1e-4, 3e-2), 2400),
        ("positional", (4e-5, 1e-4, 2e-2, 1e-3), 52),
    ):
        assert [float(f"{gap:.0e}") for gap in medians["layers", arm]] == list(said)
        assert between_seeds["layers", arm] == pytest.approx(seeds, rel=0.03)
    every = [gap for sweep in medians.values() for gap in sweep]
    assert (float(f"{min(every):.0e}"), float(f"{max(every):.0e}")) == (2e-6, 0.6)
