"""The section of docs/results.md on mixed types is what the committed store and the published figures say."""

import importlib
import itertools
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from posattn import studies, tasks
from posattn.published import losses
from posattn.studies.core import results
from posattn.studies.core.results import Point
from posattn.studies.positional.numeric_protocol import published_losses
from posattn.tasks.mixed import LIST_CHARACTERS
from result_pages import PAGE, RESULTS, last_training_loss, read, section, shows, tabled, told, unpacked

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
labels: Any = importlib.import_module("mixed_labels")

SECTION = section("mixed-type")
PART = dict(re.findall(r"### ([^\n]*)\n(.*?)(?=\n### |\Z)", SECTION, flags=re.DOTALL))
UNREAD = PART["What a model loses that does not read the labels"]
NAMES = ("min", "sum", "multitask")


class Held(NamedTuple):
    folder: Path
    points: dict[tuple[str, str, str], Point]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The committed trials, and what the study reads from them."""
    folder = unpacked(RESULTS / "mixed-type" / "store.tar.xz", tmp_path_factory.mktemp("store"))
    found = results.results("mixed-type", folder).points
    return Held(folder, {(point.task, point.arm, point.test_set): point for point in found})


def last_training_losses(store: Held, task: str, arm: str) -> list[float]:
    """The mean training loss of the last epoch, of every seed."""
    [trial] = [case for case in studies.get("mixed-type").cases(task, "paper") if case.arm == arm]
    return [last_training_loss(store.folder / trial.seeded(seed).id) for seed in range(3)]


def test_the_papers_models_beside_the_published_ones(store):
    shown = list(tabled(SECTION.split("\n### ")[0]))
    assert len(shown) == 15
    for at in range(0, len(shown), 3):
        (task, model, ours), (_, _, published), (_, _, ratios) = shown[at : at + 3]
        for place, cells in zip((None, 1, 2, 5, 10), zip(ours, published, ratios, strict=True), strict=True):
            arm, test_set = model.removesuffix(", ours"), f"c={place}" if place else "validation"
            point = store.points[f"mixed-{task}", arm, test_set]
            assert len(point.ours) == 3
            assert shows(cells[0], point.ours)
            assert shows(cells[1], losses("mixed_type_scale", f"mixed-{task}", arm, scale=place))
            assert read(cells[2]) == pytest.approx(point.ratio, abs=0.0051)
    every = [point.ratio for (_, arm, _), point in store.points.items() if arm in ("standard", "positional")]
    assert (min(every), max(every)) == pytest.approx(told("by a factor of # to #, also", SECTION), rel=0.02)
    heads = next(line for line in SECTION.splitlines() if line.startswith("| task"))
    assert [cell.strip() for cell in heads.split("|")[4:-1]] == [f"c = {place}" for place in (1, 2, 5, 10)]
    for task in ("min", "sum"):
        for scale in range(2, 11):
            far = [store.points[f"mixed-{task}", arm, f"c={scale}"].median for arm in ("positional", "standard")]
            assert far[0] < far[1]


def in_every_question(numbers: Tensor) -> Tensor:
    """The four numbers that each of the 70 questions asks for."""
    return numbers.double()[:, list(itertools.combinations(range(8), 4))]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("high", [2.0, 5.0])
def test_what_a_model_that_does_not_read_names_loses_at_least(name, high):
    """Against all 70 questions about drawn numbers, one after the other."""
    task = tasks.get(f"mixed-{name}")
    (_, numbers), _ = task.sample(20_000, high=high, generator=torch.Generator().manual_seed(0))
    asked = in_every_question(numbers)
    answers = {"min": [asked.amin(2)], "sum": [asked.sum(2)], "multitask": [asked.amin(2), asked.amax(2)]}[name]
    lost = statistics.mean(float(answer.var(1, unbiased=False).mean()) for answer in answers)
    assert labels.blind(f"mixed-{name}", high) == pytest.approx(lost, rel=0.03)


def cells(row: str) -> list[str]:
    """The cells of a row of the section's table."""
    [line] = [line for line in UNREAD.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def spans(cell: str, values: list[float]) -> bool:
    """As `shows`, to three digits."""
    exact = [f"{value:.3g}" for value in (statistics.median(values), min(values), max(values))]
    return [f"{float(one):.3g}" for one in re.findall(r"[\d.]+", cell)] == exact


def test_losses_that_do_not_need_the_labels_are_those_of_the_store_and_of_the_published_runs(store):
    for at, name in enumerate(NAMES):
        task = f"mixed-{name}"
        for high in (5, 2):
            assert cells(f"names not read, values in [0, {high}]")[at] == f"{labels.blind(task, high):.3g}"
        last = last_training_losses(store, task, "positional")
        assert spans(cells("positional, ours, training (last epoch)")[at], last)
        if name != "multitask":
            assert spans(cells("standard, ours, training")[at], last_training_losses(store, task, "standard"))
        assert abs(statistics.median(last) / labels.blind(task, 5.0) - 1) < told("within # % of what", UNREAD)[0] / 100
        for arm in ("positional", "standard"):
            assert spans(cells(f"{arm}, published, training")[at], labels.trained(task, arm))
    assert cells("standard, ours, training")[2] == "to come"


def test_published_losses_are_near_those_of_values_in_half_the_range():
    trained = {name: labels.trained(f"mixed-{name}", "positional") for name in NAMES}
    times = [loss / labels.blind(f"mixed-{name}", 2.0) for name, runs in trained.items() for loss in runs]
    count, least, most, *factors = told(
        "All # positional runs have training losses # to # times what the mean answer loses on [0, 2], that is # to # "
        "times less (medians)",
        UNREAD,
    )
    assert len(times) == count
    assert (min(times), max(times)) == pytest.approx((least, most), abs=0.005)
    less = [labels.blind(f"mixed-{name}", 5.0) / statistics.median(runs) for name, runs in trained.items()]
    assert (min(less), max(less)) == pytest.approx(factors, abs=0.06)
    sizes = (20_000, 35_000, 50_000, 75_000, 100_000)
    by_samples = [
        labels.blind(f"mixed-{name}", 5.0)
        / statistics.median(losses("mixed_type_sample", f"mixed-{name}", "positional", scale=None, samples=samples))
        for name in NAMES
        for samples in sizes
    ]
    wanted = told("on validation sets are likewise # to # times less, whatever the number of samples", UNREAD)
    assert (min(by_samples), max(by_samples)) == pytest.approx(wanted, abs=0.06)
    by_heart, above = (
        [statistics.median(of(f"mixed-{name}")) / labels.blind(f"mixed-{name}", 2.0) for name in ("min", "multitask")]
        for of in (
            lambda task: labels.trained(task, "standard"),
            lambda task: losses("mixed_type_scale", task, "standard", scale=None),
        )
    )
    assert by_heart == pytest.approx(told("by heart (# and # times the mean answer's", UNREAD), abs=0.006)
    assert above == pytest.approx(told("and have # and # times that loss on validation sets", UNREAD), abs=0.06)


def test_gpt2_is_on_the_larger_scale():
    loss, error, percent, wide, narrow = told(
        "its loss on sum is #, a root mean square error of #, and its mean error was published as # %. Answers are # "
        "on average on [0, 50], where these two agree, and # on [0, 20]",
        UNREAD,
    )
    rows = labels.table("positional.csv").query("arch == 'gpt2_large_finetuned' and task == 'sum' and scale_c == 10")
    found = {split: statistics.median(part["loss"]) for split, part in rows.groupby("split")}
    assert (loss, percent) == pytest.approx((found["test"], found["test_mape_percent"]), rel=0.005)
    assert error == pytest.approx(found["test"] ** 0.5, rel=0.005)
    assert (wide, narrow) == (4 * 50 / 2, 4 * 20 / 2)


def test_models_of_few_steps_are_shown_as_they_were_measured():
    found = re.findall(
        r"mixed-(\w+), trained on \[0, (\d)\]: .*validation (\S+) .* by (\S+) of",
        (RESULTS / "mixed-type" / "labels.txt").read_text(),
    )
    assert sorted((name, int(high)) for name, high, *_ in found) == sorted(itertools.product(NAMES, (2, 5)))
    shown = {
        "5": "positional, ours, 2,000 steps, validation",
        "2": "positional, ours, trained on [0, 2], 2,000 steps, validation",
    }
    for name, high, validation, moved in found:
        assert cells(shown[high])[NAMES.index(name)] == validation
        assert float(moved) < told("move by at most # % of what", UNREAD)[0] / 100
    for high, said in zip((5.0, 2.0), told("it would lose # and # if it did not at all", UNREAD), strict=True):
        (_, numbers), _ = tasks.get("mixed-min").sample(20_000, high=high, generator=torch.Generator().manual_seed(0))
        asked = in_every_question(numbers)
        either = torch.cat([asked.amin(2), asked.amax(2)], dim=1)
        assert float(either.var(1, unbiased=False).mean()) == pytest.approx(said, rel=0.03)


def test_what_is_told_of_both_models_with_and_without_the_factor(store):
    models = ("standard", "positional")
    ratios = {key: point.ratio for key, point in store.points.items() if key[1] in models}
    factor, within, count, plain = told(
        "multiplied by # = (5/2)², # of the # medians lie within a factor of 3; without, # do", UNREAD
    )
    assert (len(ratios), factor) == (count, 2.5**2)
    assert sum(1 / 3 < ratio < 3 for ratio in ratios.values()) == plain
    off = {key: ratio / factor for key, ratio in ratios.items() if not 1 / 3 < ratio / factor < 3}
    assert len(ratios) - len(off) == within
    first, last, least, most, far = told(
        "seven are min by the standard model at c = # to #, # to # times theirs, and one is sum by the standard model "
        "at c = 1, # times",
        UNREAD,
    )
    assert off.pop(("mixed-sum", "standard", "c=1")) == pytest.approx(far, abs=0.05)
    assert set(off) == {("mixed-min", "standard", f"c={c}") for c in range(int(first), int(last) + 1)}
    assert (min(off.values()), max(off.values())) == pytest.approx((least, most), abs=0.006)
    *between, lowest, highest = told("Any factor from # to # gives # to #, so", UNREAD)
    counts = [sum(1 / 3 < ratio / (by / 10) < 3 for ratio in ratios.values()) for by in range(50, 81)]
    assert (between, min(counts), max(counts)) == ([5, 8], lowest, highest)
    assert told("theirs: # of # medians within 3, # with the published losses multiplied by #", PAGE) == [
        plain,
        count,
        within,
        factor,
    ]
    raised = [
        [
            statistics.median(of(point)) / statistics.median(of(store.points[task, arm, "validation"]))
            for (task, arm, test_set), point in store.points.items()
            if arm in models and test_set == "c=1"
        ]
        for of in (lambda point: point.ours, lambda point: point.published)
    ]
    for found, wanted in zip(
        raised,
        (
            told("raise our medians # to # times above", UNREAD),
            told("The published ones are # to # times those", UNREAD),
        ),
        strict=True,
    ):
        assert (min(found), max(found)) == pytest.approx(wanted, abs=0.06)


def test_what_is_told_of_the_standard_model(store):
    last = {name: last_training_losses(store, f"mixed-{name}", "standard") for name in ("min", "sum")}
    tested = {name: store.points[f"mixed-{name}", "standard", "validation"].ours for name in last}
    *of_sum, of_min = told("by heart (# to #, and #)", UNREAD)
    assert (min(last["sum"]), max(last["sum"]), min(last["min"])) == pytest.approx((*of_sum, of_min), rel=0.005)
    assert sorted(last["min"])[1] > 0.95 * labels.blind("mixed-min", 5.0)
    assert max(last["sum"]) < 0.7 * labels.blind("mixed-sum", 5.0)
    assert [tested["sum"][1]] == pytest.approx(told("seed 1 of sum, with a validation loss of #,", UNREAD), abs=0.0005)
    wanted = told("The other five have # to # and # to #, where the mean", UNREAD)
    kept = [tested["sum"][0], tested["sum"][2]]
    assert (min(tested["min"]), max(tested["min"]), min(kept), max(kept)) == pytest.approx(wanted, rel=0.03)
    errors = told("on 1,000 samples has a standard error of # % (sum) or # % (min)", UNREAD)
    for name, percent in zip(("sum", "min"), errors, strict=True):
        (_, numbers), answers = tasks.get(f"mixed-{name}").sample(40_000, generator=torch.Generator().manual_seed(0))
        asked = in_every_question(numbers)
        mean = (asked.sum(2) if name == "sum" else asked.amin(2)).mean(1, keepdim=True)
        squares = (answers.double() - mean).square()
        assert float(squares.std() / squares.mean() / 1000**0.5) == pytest.approx(percent / 100, abs=0.006)


def test_seconds_are_those_of_the_store(store):
    files = [json.loads(path.read_text()) for path in store.folder.glob("*/metrics.json")]
    took = {found["fleet"]: found["seconds"] for found in files if found["device"] == "NVIDIA H200"}
    positional, standard = told("# s for the nine positional models, # s for the six standard ones", SECTION)
    assert (took[9], took[6]) == pytest.approx((positional, standard), abs=0.5)


def test_a_question_about_the_other_labels_is_one():
    task = tasks.get("mixed-sum")
    inputs, answers = task.sample(50, generator=torch.Generator().manual_seed(0))
    others = labels.asked_otherwise(inputs)
    assert torch.equal(others.characters[:, :LIST_CHARACTERS], inputs.characters[:, :LIST_CHARACTERS])
    assert torch.allclose(task.target(others) + answers, inputs.numbers.sum(1, keepdim=True), atol=1e-4)


def test_mixed_types_are_solved_for_seen_and_for_unseen_labels(store):
    points = store.points
    seen = "c=10, seen labels"
    published = {
        task: published_losses("mixed_type_scale", f"mixed-{task}", "positional", (1, 10))
        for task in ("min", "sum", "multitask")
    }
    shown = list(tabled(PART["Past the paper: gated and compiled"]))
    assert len(shown) == 9
    for task, arm, cells in shown:
        theirs = statistics.median(published[task]["c=10"])
        if arm == "published, positional":
            wanted = [statistics.median(published[task][test_set]) for test_set in ("validation", "c=1", "c=10")]
            assert [read(cell) for cell in (*cells[:2], cells[3])] == pytest.approx(wanted, rel=0.051)
            continue
        for test_set, cell in zip(("validation", "c=1", seen, "c=10"), cells, strict=False):
            if cell != "–":
                assert shows(cell, points[f"mixed-{task}", arm, test_set].ours)
        far = points[f"mixed-{task}", arm, "c=10"]
        assert len(far.ours) == 3
        assert read(cells[-1]) == pytest.approx(theirs / far.median, rel=0.051)
        assert theirs / max(far.ours) > 100
        assert arm == "compiled" or theirs / max(points[f"mixed-{task}", arm, seen].ours) > 100


def test_the_figures_of_gpt2_are_the_published_ones():
    shown = list(tabled(PART["GPT-2"]))
    assert [task for task, *_ in shown] == ["min", "sum", "multitask"]
    for task, first, (*others, ours) in shown:
        for scale, cell in zip((1, 2, 3, 5, 10), (first, *others), strict=True):
            published = losses("mixed_type_scale", f"mixed-{task}", "gpt2_large_finetuned", scale=scale)
            assert len(published) == 10
            assert shows(cell, published)
        assert ours == "weights not available"
