"""A report is whole, self-contained, and says what the results say."""

import base64
import csv
import dataclasses
import html
import math
import re
import statistics
import sys
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import rc_context
from PIL import Image

from posattn import engine, report, studies
from posattn.report import answer, figures, table
from posattn.studies.core import results
from posattn.train.language import fine_tune as language

pytestmark = pytest.mark.xdist_group("report")  # they share a run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    found = results.run(
        studies.get("ood-scale"),
        preset="smoke", tasks=("sum", "max-subarray"), seeds=2, out=folder, device="cpu", reporter=engine.Lines(),
    )  # fmt: skip
    return found, report.write(found, folder)


def test_every_file_is_there(made):
    names = {path.name for path in made[1].parent.iterdir()}
    assert names == {
        "table.md", "figures.csv", "curves.png", "curves.svg", "curves.pdf", "report.html",
        "attention-sum.png", "attention-max-subarray.png",
    }  # fmt: skip


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.cells, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "link", "br", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_page_needs_nothing_from_outside_and_is_well_formed(made):
    links = Links()
    links.feed(made[1].read_text())
    assert not links.open
    pictures = [link for link in links.found if link.startswith("data:image/png;base64,")]
    others = [link for link in links.found if link not in pictures]
    assert len(pictures) == 3
    assert [link.partition(",")[0] for link in others] == ["data:text/csv;charset=utf-8;base64"]


def test_page_shows_every_point_with_every_seed_folded_away(made):
    text = made[1].read_text()
    folded = Links()
    folded.feed(text[text.index("<details>") : text.index("</details>")] + "</details>")
    names, rows = table.every(made[0])
    assert folded.cells == [cell for row in rows for cell in row]
    assert names[-1] == "every seed"
    assert len(rows) == len(made[0].points)
    for point, row in zip(made[0].points, rows, strict=True):
        assert row[-1].split() == [f"{value:.2e}" for value in point.ours]


def test_what_the_page_offers_to_download_is_the_csv_file_beside_it(made):
    links = Links()
    links.feed(made[1].read_text())
    (link,) = [link for link in links.found if link.startswith("data:text/csv")]
    assert base64.b64decode(link.partition(",")[2]) == (made[1].parent / "figures.csv").read_bytes()


def test_page_opens_with_question_answer_and_caveats_then_the_picture_then_the_table(made):
    text = made[1].read_text()
    order = [made[0].study.question, html.escape(answer.answer(made[0]), quote=True).replace("&#x27;", "&#39;")]
    order += [
        "Medians of 2 seeds; the smoke preset only shows that everything runs.",
        "<img",
        "At a glance",
        "<details>",
    ]
    places = [text.index(part, text.index("<h1>")) for part in order]
    assert places == sorted(places)


def test_the_page_for_embedding_is_the_one_that_is_written(made):
    folder = made[1].parent.parent.parent
    assert report.report_page(made[0], folder) == made[1].read_text()


def test_page_fits_a_phone_and_paper(made):
    text = made[1].read_text()
    assert 'name="viewport"' in text
    assert "@media print" in text


def test_pictures_open_and_are_not_empty(made):
    for path in made[1].parent.glob("*.png"):
        colours = Image.open(BytesIO(path.read_bytes())).convert("RGB").getcolors(1 << 24)
        assert colours is not None
        assert len(colours) > 20


def test_curves_are_drawn_at_the_medians_and_published_ones_dashed(made):
    found = made[0]
    panel = figures.curves(found).axes[0]
    lines = {line.get_label(): line for line in panel.get_lines()}
    wanted = {"standard", "standard (published)", "positional", "positional (published)", "homogeneous"}
    assert wanted == set(lines)
    points = [p for p in found.points if (p.task, p.arm) == ("sum", "positional") and p.test_set != "validation"]
    assert np.array_equal(lines["positional"].get_ydata(), [point.median for point in points])
    published = [point.published_median for point in points]
    assert np.array_equal(lines["positional (published)"].get_ydata(), np.array(published))
    assert lines["positional (published)"].get_linestyle() == "--"
    assert panel.get_yscale() == "log"


def test_writing_again_gives_the_same_svg(made):
    found, page = made
    before = (page.parent / "curves.svg").read_bytes()
    report.write(found, page.parent.parent.parent)
    assert (page.parent / "curves.svg").read_bytes() == before
    assert not re.search(rb"<dc:date>", before)


@pytest.mark.parametrize("tasks", [("sum",), ("sum", "min", "sort")], ids=len)
@pytest.mark.parametrize("longest", ["GPT-2", "rotary, input X‖P"])
def test_the_legend_fits_the_figure(made, tasks, longest):
    """Every model published, its name among short ones."""
    found = made[0]
    points = [
        results.Point(task, arm, test_set, float(test_set[2:]), (1.0, 2.0), (3.0,), (0, 1))
        for task in tasks
        for arm in ("standard", longest, "positional")
        for test_set in ("c=1", "c=3")
    ]
    figure = figures.curves(dataclasses.replace(found, points=tuple(points)))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert 0 <= box.y0 < box.y1 <= figure.bbox.height
    assert len(legend.get_texts()) == 6


# ---- a language model, and scores that are not finite


def scored(*losses: float | None) -> Any:
    """In place of fine-tuning: a seed's loss on every set, None where no answer was a number."""

    def fine_tune(trial: language.LanguageTrial, **_: Any) -> list[dict[str, Any]]:
        loss, count = losses[trial.seed], trial.test_samples
        counts = {"step": trial.steps, "unparseable": count if loss is None else 3, "answers": count}
        return [{"set": name, "loss": loss, "metric": loss} | counts for name in (one.name for one in trial.test_sets)]

    return fine_tune


def read(folder: Path, *losses: float | None, arms: tuple[str, ...] = ()) -> results.Results:
    """The mixed-type study with a language model that scores as it is told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "fine_tune", scored(*losses))
        return results.run(
            studies.get("mixed-type").choosing({"gpt2": "gpt2"}),
            preset="smoke", tasks=("mixed-min",), arms=arms, seeds=len(losses), out=folder, device="cpu",
            reporter=engine.Lines(),
        )  # fmt: skip


def kept(page: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((page.parent / "figures.csv").read_text().splitlines()))


def lines_of(found: results.Results) -> dict[str, Any]:
    return {str(line.get_label()): line for line in figures.curves(found).axes[0].get_lines()}


def test_gpt2_is_in_the_table_the_csv_the_figure_and_the_page(tmp_path):
    found = read(tmp_path, 0.5)
    page = report.write(found, tmp_path)
    rows = [row for row in kept(page) if row["arm"] == "GPT-2"]
    assert [(row["test_set"], float(row["value"])) for row in rows] == [("validation", 0.5), ("c=1", 0.5), ("c=2", 0.5)]
    assert [row["published_median"] == "" for row in rows] == [True, False, False]
    assert (page.parent / "table.md").read_text().count("| mixed-min | GPT-2 | ") == 3
    links = Links()
    links.feed(page.read_text())
    assert links.cells.count("GPT-2") == 1 + 3  # at a glance, and point by point
    note = "9 of 24 answers of GPT-2 hold no number; the others make its figures."
    assert f"<li>{note}</li>" in page.read_text()
    assert f"- {note}\n" in (page.parent / "table.md").read_text()
    lines = lines_of(found)
    assert np.array_equal(lines["GPT-2"].get_ydata(), [0.5, 0.5])
    assert lines["GPT-2 (published)"].get_linestyle() == "--"
    colours = {lines[arm].get_color() for arm in ("standard", "positional", "homogeneous", "GPT-2")}
    assert len(colours) == 4
    assert b"GPT-2" in _svg_text(page.parent / "curves.svg", found)


def _svg_text(path: Path, found: results.Results) -> bytes:
    """The figure with letters as letters: in the file they are outlines."""
    assert path.stat().st_size > 0
    with rc_context({"svg.fonttype": "none"}):
        return figures.rendered(figures.curves(found), "svg")


@pytest.mark.parametrize("losses", [(None,), (None, None), (0.5, None), (0.5, None, 0.25), (None, 0.5, None)], ids=str)
def test_losses_that_are_not_finite_leave_a_figure_that_can_be_drawn(tmp_path, losses):
    """Without a warning: those are errors in these tests."""
    figure = figures.curves(read(tmp_path, *losses, arms=("GPT-2",)))
    panel = figure.axes[0]
    line = next(line for line in panel.get_lines() if line.get_label() == "GPT-2")
    assert np.array_equal(line.get_ydata(), [statistics.median(math.inf if x is None else x for x in losses)] * 2)
    assert all(0 < limit < 1e3 for limit in panel.get_ylim())
    assert len(figures.rendered(figure, "png")) > 1000


@pytest.mark.parametrize("study", ["sts-adam", "ood-scale"])
def test_a_study_in_which_everything_diverged_can_be_drawn(study, tmp_path):
    """Followed through training or not, and nothing published beside it."""
    task, arms = ("selection", ("stochastic",)) if study == "sts-adam" else ("sum", ("homogeneous",))
    asked = studies.get(study)
    ran = results.run(asked, preset="smoke", tasks=(task,), arms=arms, seeds=1, out=tmp_path, reporter=engine.Lines())
    lost = [dataclasses.replace(point, ours=(math.inf,), published=()) for point in ran.points]
    figure = figures.curves(dataclasses.replace(ran, points=tuple(lost)))
    assert len(figures.rendered(figure, "png")) > 1000


def test_losses_that_are_not_finite_do_not_press_the_others_flat_and_are_said(tmp_path):
    found = read(tmp_path, 0.5, None)
    highest = max(point.median for point in found.points if point.drawn and math.isfinite(point.median))
    assert highest < figures.curves(found).axes[0].get_ylim()[1] < 10 * highest
    page = report.write(found, tmp_path)
    assert page.read_text().count("<td>inf</td>") == 3 + 3 + 2  # twice the medians; ratios to published figures
    assert "Where none does, its loss is inf." in page.read_text()


def test_a_model_that_is_left_out_is_said_in_the_report(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = results.run(
        studies.get("mixed-type").choosing({"gpt2": "<gpt2>"}),
        preset="smoke", tasks=("mixed-min",), seeds=1, out=tmp_path, device="cpu", reporter=engine.Lines(),
    )  # fmt: skip
    page = report.write(found, tmp_path)
    assert "<li>No GPT-2: model &#39;&lt;gpt2&gt;&#39; needs transformers (" in page.read_text()
    assert "- No GPT-2: model '<gpt2>' needs transformers (" in (page.parent / "table.md").read_text()
    assert "GPT-2" not in lines_of(found)


def test_models_with_their_own_numbers_of_seeds_share_a_table_and_a_figure(tmp_path):
    def run(arm: str, seeds: int) -> results.Results:
        return results.run(
            studies.get("rotary"), preset="smoke", tasks=("sum",), arms=(arm,), seeds=seeds, out=tmp_path,
            device="cpu", reporter=engine.Lines(),
        )  # fmt: skip

    run("positional", 1)
    found = run("rotary, input X‖P", 3)
    page = report.write(found, tmp_path)
    place = table.header(found).index("seeds")
    assert {(row[1], row[place]) for row in table.cells(found)} == {("positional", "1"), ("rotary, input X‖P", "3")}
    text = page.read_text()
    assert "Command: posattn run rotary --task sum --model positional --preset smoke --seeds 1" in text
    assert "Command: posattn run rotary --task sum --model &#39;rotary, input X‖P&#39; --preset smoke --seeds 3" in text
    assert [row["seed"] for row in kept(page) if row["arm"] == "rotary, input X‖P"] == ["0", "1", "2"] * 3
    assert {"positional", "rotary, input X‖P"} < set(lines_of(found))
