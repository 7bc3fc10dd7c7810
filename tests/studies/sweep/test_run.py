"""A sweep trains what would be trained by hand, as few fleets, and is judged by validation medians alone."""

import itertools
import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

from command_line import runner
from posattn import PosattnError, engine, report, studies, tasks
from posattn.engine import EarlyStop
from posattn.nn import Positional
from posattn.studies.core.case import Case
from posattn.studies.sweep import Tried, parse, sweep
from posattn.studies.sweep.tried import best, limits
from posattn.studies.sweep.validation import validated
from posattn.train import Data, Evaluation, Fleet, Optimiser, Trial
from posattn.train.changes import apply

SMALL: dict[str, Any] = {"preset": "smoke", "tasks": ("sum",), "arms": ("positional",), "device": "cpu"}


class Counting(engine.Reporter):
    """Counts the fleets."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    def start(self, title: str, steps: int, done: int) -> int:
        self.titles.append(title)
        return len(self.titles)

    def update(self, number: int, step: int, losses: list[float]) -> None: ...

    def end(self, number: int) -> None: ...

    def say(self, message: str) -> None: ...

    def __exit__(self, *_: Any) -> None: ...


def study_trial() -> Trial:
    found = studies.get("ood-scale").chosen(("sum",), "smoke", ("positional",))[0].trial
    assert isinstance(found, Trial)
    return found


def test_every_setting_is_the_trial_that_would_be_written_by_hand(tmp_path: Path) -> None:
    space = parse(["optimiser.lr=1e-3,1e-2", "model.heads=1,2"])
    counting = Counting()
    found = sweep(studies.get("ood-scale"), space, out=tmp_path / "swept", reporter=counting, seeds=3, **SMALL)
    assert len(counting.titles) == 2  # heads have a fleet each; rates and seeds share it
    by_hand = tmp_path / "by-hand"
    for heads, rate in itertools.product((1, 2), (1e-3, 1e-2)):
        setting = {"model.heads": heads, "optimiser.lr": rate}
        trials = [apply(study_trial(), setting).seeded(seed) for seed in range(3)]
        store = engine.run(trials, out=by_hand, device="cpu", reporter=Counting())
        rows = [row for row in store.rows({trial.id for trial in trials}) if row["set"] == "validation"]
        losses = {row["seed"]: row["loss"] for row in rows}
        tried = next(one for one in found.tried if one.setting == setting)
        # Another fleet adds up in another order; eight steps do not magnify that beyond 1e-4.
        assert tried.losses == pytest.approx(tuple(losses[seed] for seed in range(3)), rel=1e-4)
        assert tried.median == pytest.approx(statistics.median(losses.values()), rel=1e-4)
    chosen = found.best(found.cases[0])
    assert chosen is not None
    assert chosen.median == min(one.median for one in found.tried)


def test_a_sweep_that_is_run_again_trains_nothing(tmp_path: Path) -> None:
    space = parse(["optimiser.lr=1e-3..1e-2"])
    given: dict[str, Any] = {"search": "optuna", "budget": 4, "batch": 2, "stop_early": True, "out": tmp_path} | SMALL
    first = sweep(studies.get("ood-scale"), space, reporter=Counting(), **given)
    again = Counting()
    second = sweep(studies.get("ood-scale"), space, reporter=again, **given)
    assert again.titles == []
    assert [(one.setting, one.median, one.stopped) for one in second.tried] == [
        (one.setting, one.median, one.stopped) for one in first.tried
    ]


def tried(losses: tuple[float, ...], **fields: Any) -> Tried:
    case = Case(task="sum", arm="positional", trial=study_trial())
    return Tried(case=case, setting={"optimiser.lr": losses}, losses=losses, **fields)


def test_the_best_setting_has_the_lowest_median_not_the_lowest_run_or_mean() -> None:
    lucky, steady, lowest_mean = tried((1.0, 8.0, 9.0)), tried((4.0, 5.0, 60.0)), tried((5.5, 5.6, 5.7))
    assert best([lucky, lowest_mean, steady]) is steady


def test_what_was_stopped_or_never_finite_is_not_the_best() -> None:
    stopped = tried((), path={3: 0.1}, stopped=3)
    assert best([stopped, tried((math.inf, math.inf, 1.0)), tried((2.0, 2.0))]).losses == (2.0, 2.0)  # pyright: ignore[reportOptionalMemberAccess]
    assert best([stopped, tried((math.inf, math.inf, 1.0))]) is None


# ---- the validation set


def trial_without(**data: Any) -> Trial:
    return Trial(
        task="sum",
        model=Positional(length=5, embed_dim=4, hidden_dim=4, layers=1),
        data=Data(**{"samples": 8, "batch": 4, "options": {"length": 5, "high": 3.0}} | data),
        optimiser=Optimiser(steps=1),
        evaluation=Evaluation(samples=8, sets={"far": {"low": -6.0}}),
    )


def test_a_study_without_a_validation_set_gets_one_of_its_training_options_from_another_stream() -> None:
    found = validated(trial_without())
    assert isinstance(found, Trial)
    sets = {one.name: dict(one.options) for one in found.test_sets}
    assert sets == {"far": {"length": 5, "high": 3.0, "low": -6.0}, "validation": {"length": 5, "high": 3.0}}
    fleet = Fleet([found], device="cpu")
    trained = fleet.data.parts[0].tensors[0][0]
    at = {name: place for names, _ in fleet.tests.groups for place, name in enumerate(names)}
    drawn = fleet.tests.groups[0][1][0][0].split(8)
    assert not torch.isin(drawn[at["validation"]], trained).any()
    assert not torch.isin(drawn[at["validation"]], drawn[at["far"]]).any()


def test_a_study_with_a_validation_set_keeps_its_trials() -> None:
    assert validated(study_trial()).id == study_trial().id


def test_several_lengths_are_validated_at_the_longest() -> None:
    found = validated(trial_without(lengths=(3, 5), options={}))
    assert {one.name: dict(one.options) for one in found.test_sets}["validation"] == {"length": 5}


def test_fixed_data_is_not_validated_on_what_it_was_trained_on() -> None:
    x = torch.arange(6.0).reshape(6, 1, 1)
    tasks.register(tasks.Fixed(x, x, {"train": [0, 1, 2, 3], "test": [4, 5]}, name="swept-rows"))
    trial = Trial(
        task="swept-rows",
        model=Positional(length=1, embed_dim=4, hidden_dim=4, layers=1),
        data=Data(samples=4, batch=2),
        optimiser=Optimiser(steps=1),
        evaluation=Evaluation(samples=2, sets={"test": {"split": "test"}}),
    )
    try:
        with pytest.raises(PosattnError, match=r"without a split 'validation'.*never chosen by training or test data"):
            validated(trial)
    finally:
        del tasks.REGISTRY["swept-rows"]


# ---- early stopping


def scored(*losses: float | None, step: int = 4) -> list[list[dict[str, Any]]]:
    return [[{"set": "validation", "step": step, "loss": loss}] for loss in losses]


def test_a_fleet_stops_when_the_medians_of_all_its_settings_exceed_their_limits() -> None:
    rates = [apply(study_trial(), {"optimiser.lr": rate}) for rate in (1e-3, 1e-2)]
    trials = [trial.seeded(seed) for trial in rates for seed in range(3)]
    rule = EarlyStop("validation", {trial.seeded(0).id: {4: 2.0} for trial in rates})
    assert rule.stops(trials, scored(1.0, 3.0, 4.0, 3.0, 3.0, 1.0), 4)  # medians 3 and 3, though two runs are below
    assert not rule.stops(trials, scored(1.0, 2.0, 4.0, 3.0, 3.0, 1.0), 4)  # one setting is not above
    assert not rule.stops(trials, scored(3.0, 3.0, 3.0, 3.0, 3.0, 3.0, step=8), 8)  # nothing is known of step 8
    assert rule.stops(trials, scored(None, None, 1.0, None, None, None), 4)  # no number counts as infinite


def test_limits_are_medians_over_settings_once_there_are_enough() -> None:
    before = [tried((1.0,), path={2: value, 4: 2 * value}) for value in (1.0, 5.0, 3.0)]
    assert limits(before, least=3) == {2: 3.0, 4: 6.0}
    assert limits([*before, tried((), path={2: 9.0}, stopped=2)], least=4) == {2: 4.0}
    assert limits(before, least=4) == {}


def test_stopped_fleets_leave_no_result_and_no_checkpoint(tmp_path: Path) -> None:
    space = parse(["optimiser.lr=1e-2,5e-3,2e-3,1e-3,1e-9,2e-9"])
    given: dict[str, Any] = {"batch": 4, "stop_early": True, "out": tmp_path} | SMALL
    found = sweep(studies.get("ood-scale"), space, reporter=Counting(), **given)
    stopped = [one for one in found.tried if one.stopped is not None]
    assert [one.setting["optimiser.lr"] for one in stopped] == [1e-9, 2e-9]  # they learn nothing
    steps = study_trial().optimiser.steps
    assert all(one.stopped < steps for one in stopped if one.stopped is not None)
    assert len({row["trial"] for row in engine.Store(tmp_path).rows()}) == 4 * 3
    assert not list((tmp_path / "checkpoints").glob("*"))


# ---- the report and the command

SWEEP = ["sweep", "ood-scale", "--task", "sum", "--preset", "smoke", "--device", "cpu"]


def test_the_command_prints_the_best_settings_and_writes_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = runner(monkeypatch, capsys)
    asked = [*SWEEP, "--set", "optimiser.lr=1e-3,1e-2", "--set", "optimiser.schedule=cosine,linear", "--out", tmp_path]
    ended = run(*asked, "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out.splitlines()[-1])
    assert len(result["rows"]) == 4 * 3  # settings, models
    for model in ("standard", "positional", "homogeneous"):
        some = [row for row in result["rows"] if row["model"] == model]
        assert [row["median"] for row in some if row["best"]] == [min(row["median"] for row in some)]
        assert all(row["median"] == statistics.median(row["losses"]) for row in some)
    folder = Path(result["report"]).parent
    assert {path.name for path in folder.iterdir()} >= {"report.html", "table.md", "settings.csv", "curves.svg"}
    assert len((folder / "settings.csv").read_text().splitlines()) == 1 + 4 * 3 * 3
    drawn = (folder / "curves.svg").read_text()
    assert all(word in drawn for word in ("optimiser.lr", "optimiser.schedule", "linear"))
    printed = run(*asked)
    assert "and so left out: compiled" in printed.out
    assert f"report: {result['report']}" in printed.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "optimizer.lr=1e-3,1e-2"], "did you mean 'optimiser'?"),
        (["--set", "model.head=1,2"], "did you mean 'heads'?"),
        (["--set", "model.layers=1,two"], "two"),
        (["--set", "optimiser.lr="], "a value is empty"),
        ([], "the grid is empty"),
        (["--set", "optimiser.lr=1e-3", "--search", "random", "--budget", "0"], "budget=0"),
        (["--set", "optimiser.lr=1e-3,1e-2", "--seeds", "1"], "judged by the median over seeds"),
        (["--set", "data.batch=16,32", "--set", "data.samples=16,64"], "batch=32 is larger than the data"),
        (["--set", "evaluation.sets={}"], "made of its test sets"),
        (["--set", "data.options.low=-1,-2"], "easier samples would win"),
        (["--set", "evaluation.samples=10,20"], "easier samples would win"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_a_mistake_is_one_line_before_anything_starts(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended = runner(monkeypatch, capsys)(*SWEEP, *words, "--out", tmp_path / "runs")
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("as_users_run_it")
def test_only_a_sweep_is_reported(tmp_path: Path) -> None:
    wrong: Any = 3
    with pytest.raises(PosattnError, match=r"sweep is an int.*pass what posattn\.studies\.sweep\.sweep gives"):
        report.write_sweep(wrong, tmp_path)
