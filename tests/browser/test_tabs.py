"""Each tab of the lab, used as a person would."""

import re
from pathlib import Path

import torch
from playwright.sync_api import FrameLocator, Page, expect

from posattn.compile import load

from .conftest import ROOT, keep


def frame(page: Page, number: int = 0) -> FrameLocator:
    return page.locator("iframe.page:visible").nth(number).content_frame


def test_execute_shows_answer_trace_and_proof_of_a_sort(page: Page) -> None:
    page.get_by_label("Numbers").first.fill("3 1 2")
    page.get_by_label("Prove it").check()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(frame(page, 2).get_by_text("Proved: the model computes its specification")).to_be_visible(timeout=15_000)
    row = frame(page).get_by_role("row").filter(has_text="answer")
    assert row.inner_text().split() == ["answer", "1", "2", "3"]
    trace = frame(page, 1)
    trace.get_by_label("step", exact=True).press("End")
    expect(trace.get_by_text("round 3 of 3")).to_be_visible()
    keep(page, "execute")


def test_write_compiles_watches_proves_and_downloads_a_program_of_ones_own(page: Page, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Write").click()
    page.get_by_role("button", name="Compile", exact=True).click()
    expect(frame(page).get_by_text("holds.")).to_be_visible(timeout=15_000)
    page.get_by_role("button", name="Watch it run").click()
    expect(frame(page).get_by_text("Answer by node")).to_be_visible(timeout=15_000)
    keep(page, "write-watch")
    page.get_by_role("button", name="Prove", exact=True).click()
    expect(frame(page).get_by_role("heading", name="Proof")).to_be_visible(timeout=15_000)
    page.get_by_role("button", name="Weights").click()
    row = page.get_by_role("row").filter(has_text=".safetensors")
    with page.expect_download(timeout=15_000) as download:
        row.get_by_role("link").click(timeout=15_000)
    file = tmp_path / "cumsum.safetensors"
    download.value.save_as(file)
    assert load(file)(torch.tensor([1.0, 2.0, 4.0])).tolist() == [1.0, 3.0, 7.0]
    keep(page, "write")


def test_execute_steps_through_a_looped_model_on_more_numbers_than_it_was_trained_on(page: Page) -> None:
    page.get_by_label("Model").first.click()
    page.get_by_role("option", name="trained: sort, looped").click()
    page.get_by_label("Numbers").first.fill(" ".join(str(37 * n % 101) for n in range(1, 13)))
    page.get_by_role("button", name="Run", exact=True).click()
    row = frame(page).get_by_role("row").filter(has_text="answer")
    expect(row).to_be_visible(timeout=15_000)
    assert row.inner_text().split()[1:] == [str(n) for n in sorted(37 * n % 101 for n in range(1, 13))]
    trace = frame(page, 1)
    trace.get_by_label("one step on").click()
    expect(trace.locator("#note")).to_contain_text("iteration 1 of 10")
    trace.get_by_role("button", name="play").click()
    expect(trace.locator("#note")).to_contain_text("iteration 3 of 10", timeout=10_000)
    keep(page, "execute-looped")


def test_generalise_shows_where_the_standard_model_fails_and_the_looped_one_does_not(page: Page) -> None:
    page.get_by_role("tab", name="Generalise").click()
    page.get_by_role("button", name="Measure").click()
    table = frame(page).get_by_role("table").first
    expect(table).to_be_visible(timeout=20_000)
    losses = {cells[0]: cells[1] for cells in (line.split("\t") for line in table.inner_text().splitlines()[2:])}
    assert float(losses["standard"]) > 1e3 * float(losses["homogeneous"]) > 1e6 * float(losses["looped"])
    keep(page, "generalise")
    page.get_by_role("spinbutton", name="Length").fill("600")
    page.get_by_role("spinbutton", name="Length").press("Tab")
    page.get_by_role("button", name="Measure").click()
    expect(frame(page).get_by_text("takes at most 8 numbers").first).to_be_visible(timeout=20_000)
    keep(page, "generalise-long")


def test_attention_shows_maps_of_a_model_and_of_an_uploaded_file(page: Page) -> None:
    page.get_by_role("tab", name="Attention").click()
    page.get_by_role("button", name="Show", exact=True).click()
    expect(frame(page).get_by_role("heading", name="Attention of sort, positional")).to_be_visible(timeout=15_000)
    keep(page, "attention")
    file = ROOT / "src/posattn/zoo/weights/min-looped.safetensors"
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Or upload a model").click()
    chooser.value.set_files(file)
    heading = frame(page).get_by_role("heading", name="Attention of min-looped.safetensors")
    expect(heading).to_be_visible(timeout=15_000)
    keep(page, "attention-upload")


def test_select_says_where_a_fixed_encoding_fails(page: Page) -> None:
    page.get_by_role("tab", name="Select").click()
    page.get_by_role("button", name="Descend").click()
    said = frame(page).get_by_text("a fixed encoding fails; a stochastic one")
    expect(said).to_be_visible(timeout=15_000)
    keep(page, "select")


def test_runs_lists_and_filters_the_store_and_shows_a_report(page: Page) -> None:
    page.get_by_role("tab", name="Runs").click()
    expect(frame(page).get_by_text(re.compile(r"^(\d+) of \1 trials below 'runs'"))).to_be_visible(timeout=15_000)
    page.get_by_label("Filter").fill("homogeneous finished")
    page.get_by_role("button", name="List", exact=True).click()
    expect(frame(page).get_by_text(re.compile(r"^[12] of \d+ trials below 'runs'"))).to_be_visible(timeout=15_000)
    page.get_by_label("Study").click()
    page.get_by_role("option", name="ood-scale").click()
    page.get_by_role("button", name="Report", exact=True).click()
    expect(frame(page, 1).get_by_role("heading", level=1)).to_be_visible(timeout=15_000)
    keep(page, "runs")
