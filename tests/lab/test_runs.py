"""What lies in a store: its trials, their losses as a picture, runs in progress, and the reports of studies."""

from pathlib import Path

import numpy as np
import pytest

from posattn import engine, nn, report
from posattn.errors import PosattnError
from posattn.lab import runs as runs_of
from posattn.lab.runs import place, runs, studies, study_report
from posattn.studies import get
from posattn.studies.core import results
from posattn.train import Data, Evaluation, Optimiser, Trial

from .pages import cells, silent, text_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("lab") / "runs")
    results.run(get("sts-bound"), preset="smoke", device="cpu", out=folder)
    return folder


def test_runs_lists_what_the_filter_leaves(store: str) -> None:
    held = engine.listing(engine.Store(store))
    (everything,) = runs(store, "", note=silent).pages
    assert f"{len(held)} of {len(held)} trial" in text_of(everything)
    (nothing,) = runs(store, "nosuch", note=silent).pages
    assert f"0 of {len(held)} trial" in text_of(nothing)


@pytest.fixture(scope="module")
def scales(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Trained models beside a compiled one."""
    folder = str(tmp_path_factory.mktemp("lab") / "runs")
    asked = {"tasks": ("sum",), "arms": ("standard", "positional", "compiled"), "seeds": 1}
    results.run(get("ood-scale"), preset="smoke", device="cpu", out=folder, **asked)
    return folder


def test_runs_draws_test_sets_alone_with_what_is_compiled_as_a_floor(scales: str) -> None:
    held = engine.listing(engine.Store(scales))
    (axes,) = runs_of.drawn(scales, held, caption="losses").wide.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["validation", "c=1", "c=3"]
    assert sorted(str(line.get_label()).split()[0] for line in axes.get_lines()) == ["positional", "standard"]
    (floor,) = [text.get_text() for text in axes.texts]
    assert floor.startswith("↓ compiled on sum, seed 0")
    (page,) = runs(scales, "compiled", note=silent).pages
    assert "1 of 3 trials" in text_of(page)
    assert "computed" not in cells(page, next(one.trial for one in held if not one.trained)[:12])


def test_runs_draws_losses_by_step_where_they_were_measured(tmp_path: Path) -> None:
    trial = Trial(
        task="sum",
        model=nn.Positional(length=8, layers=1),
        data=Data(samples=4, batch=2),
        optimiser=Optimiser(steps=4),
        evaluation=Evaluation(samples=4, sets={"c=1": {}}, every=2),
    )
    engine.run([trial], out=tmp_path, device="cpu", reporter=engine.Lines())
    steps, _ = runs_of.drawn(str(tmp_path), engine.listing(engine.Store(tmp_path)), caption="losses").wide.axes
    (line,) = steps.get_lines()
    assert (steps.get_title(), np.array(line.get_xdata()).tolist()) == ("Loss on c=1 by step", [0, 2, 4])


@pytest.mark.parametrize(
    ("step", "steps", "said"),
    [
        (1200, 3000, "unfinished; as of the last checkpoint, step 1,200 of 3,000 (40%)"),
        (0, 3000, "unfinished, no checkpoint yet"),
        (5, None, "unfinished; as of the last checkpoint, step 5"),
    ],
)
def test_runs_says_that_a_run_in_progress_is_known_by_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, steps: int | None, said: str
) -> None:
    one = engine.Held(trial="abc", folder="f", finished=False, step=step, steps=steps, task="sum", model="m", seed=0)
    monkeypatch.setattr(runs_of, "listing", lambda store: [one])
    (page,) = runs(str(tmp_path), "", note=silent).pages
    assert said in cells(page, "abc")


def test_the_report_of_a_study_is_the_one_that_the_command_writes(store: str) -> None:
    assert studies(store, note=silent) == ["sts-bound"]
    (page,) = study_report(store, "sts-bound", note=silent).pages
    written = report.write(results.results("sts-bound", store), store)
    assert page.html == written.read_text()


@pytest.mark.parametrize("wrong", ["../sts-bound", "nosuch", None, ["sts-bound"]])
def test_only_studies_of_the_store_have_reports(store: str, wrong: str) -> None:
    with pytest.raises(PosattnError, match="unknown study"):
        study_report(store, wrong, note=silent)


def test_a_store_that_is_not_there_yet_is_explained(tmp_path: Path) -> None:
    with pytest.raises(PosattnError, match="is not there yet: train something"):
        runs(str(tmp_path / "none"), "", note=silent)


def test_test_sets_stand_in_the_order_of_their_numbers() -> None:
    names = ["validation", "c=10", "c=2", "shift 1000", "c=1.5", "shift 10"]
    assert sorted(names, key=place) == ["validation", "c=1.5", "c=2", "c=10", "shift 10", "shift 1000"]


def test_a_study_of_ones_own_is_not_imported_and_its_report_is_named(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "mine.json").write_text("{}")
    with pytest.raises(PosattnError, match=r"'mine' is a study of your own.*reports/mine/report\.html"):
        study_report(str(tmp_path), "mine", note=silent)
