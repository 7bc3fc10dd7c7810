"""Each tab of the lab, used as a person would."""

from pathlib import Path

import torch
from playwright.sync_api import FrameLocator, Page, expect

from posattn.compile import load

from .conftest import keep


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
    trace.get_by_label("round", exact=True).press("End")
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
