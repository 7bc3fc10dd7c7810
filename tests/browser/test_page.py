"""The page as a whole: there in time, readable, usable by keyboard and on a phone, and patient with mistakes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from lab.serving import served

from .conftest import ROOT, keep, lab_page

AXE = ROOT / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
TABS = {
    "Execute": "Run", "Generalise": "Measure", "Attention": "Show", "Select": "Descend", "Write": "Compile",
    "Runs": "List",
}  # fmt: skip
#: A proof that takes longer than anybody waits.
LONG = " ".join(str(n) for n in range(64))
#: Trains for minutes, with a checkpoint every second.
TRAINING = """
import sys
from posattn import engine
from posattn.nn import Positional
from posattn.train import Data, Evaluation, Optimiser, Trial
trial = Trial(task="max", model=Positional(length=4, layers=1), data=Data(samples=64, batch=32, options={"length": 4}),
              optimiser=Optimiser(steps=1_000_000), evaluation=Evaluation(samples=8, sets={"c=1": {"length": 4}}))
engine.run([trial], out=sys.argv[1], device="cpu", checkpoint_every=1.0)
"""


def used(page: Page, tab: str) -> None:
    """Do what the tab is for, with what stands in its fields."""
    open_tab(page, tab)
    page.get_by_role("button", name=TABS[tab], exact=True).click()
    page.locator("iframe.page:visible").first.wait_for(timeout=30_000)
    page.wait_for_timeout(500)


def open_tab(page: Page, tab: str) -> None:
    """On narrow screens some tabs are behind a button."""
    found = page.get_by_role("tab", name=tab)
    if not found.count():
        page.locator(".overflow-menu button").first.click()
        found = page.locator(".overflow-dropdown button", has_text=tab)
    found.first.click()


def serious(page: Page) -> list[str]:
    """What axe finds that is serious or worse, in the page and in the frames that are in sight."""
    found = []
    frames = [frame.content_frame() for frame in page.locator("iframe.page:visible").element_handles()]
    for one in (page.main_frame, *frames):
        assert one is not None
        one.evaluate(AXE.read_text())
        report = one.evaluate("axe.run(document, {iframes: false})")
        assert report["passes"]
        found += [
            f"{entry['id']}: {entry['nodes'][0]['html'][:200]}"
            for entry in report["violations"]
            if entry["impact"] in ("serious", "critical")
        ]
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, address: str, scheme: str) -> None:
    with lab_page(browser, address, dark=scheme == "dark") as page:
        for tab in TABS:
            used(page, tab)
            assert serious(page) == [], tab
            keep(page, f"{scheme}-{tab.lower()}")


def test_nothing_scrolls_sideways_at_390_pixels(browser: Browser, address: str) -> None:
    beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    with lab_page(browser, address, width=390) as page:
        for tab in TABS:
            used(page, tab)
            frames = [frame.content_frame() for frame in page.locator("iframe.page:visible").element_handles()]
            assert [frame.evaluate(beyond) for frame in (page, *frames) if frame is not None] == [0] * (1 + len(frames))
            keep(page, f"390-{tab.lower()}")


def test_the_keyboard_goes_through_the_controls_in_their_order(page: Page) -> None:
    name = (
        "e => (e.ariaLabel || e.labels?.[0]?.innerText || e.innerText || e.title || e.tagName).trim().split('\\n')[0]"
    )
    seen: list[str] = []
    while "Cancel" not in seen and len(seen) < 30:
        page.keyboard.press("Tab")
        seen.append(page.evaluate(f"({name})(document.activeElement)"))
    wanted = ["Execute", "Model", "Numbers", "Prove it", "Run", "Cancel"]
    assert [one for one in seen if one in wanted] == wanted, seen
    page.get_by_label("Numbers").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("iframe.page:visible").first).to_be_visible(timeout=15_000)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ("3 1 x", "'x' is not a number"),
        ("", "there are no numbers"),
        ("1 " * 65, "the lab takes at most 64"),
        ("nan 1", "not finite"),
        ("<b>1</b>", "'<b>1</b>' is not a number"),
    ],
)
def test_a_mistake_is_explained_in_sight(page: Page, numbers: str, said: str) -> None:
    page.get_by_label("Numbers").first.fill(numbers)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text=said)).to_be_visible(timeout=15_000)


def test_long_work_shows_a_bar_and_can_be_cancelled(page: Page) -> None:
    page.get_by_label("Model").first.click()
    page.get_by_role("option", name="program: cummedian").click()
    page.get_by_label("Numbers").first.fill(LONG)
    page.get_by_label("Prove it").check()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("progressbar", name="time taken")).to_be_visible(timeout=15_000)
    keep(page, "working")
    page.get_by_role("button", name="Cancel").first.click()
    expect(page.get_by_text(re.compile(r"Cancelled after \d"))).to_be_visible(timeout=5_000)
    keep(page, "cancelled")


@pytest.fixture
def training(store: Path) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", TRAINING, str(store)], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_a_run_in_progress_moves(page: Page, training: None) -> None:
    page.get_by_role("tab", name="Runs").click()
    cell = page.locator("iframe.page:visible").first.content_frame.get_by_text(
        re.compile(r"^unfinished; as of the last checkpoint, step [1-9]")
    )
    expect(cell).to_be_visible(timeout=60_000)
    before = cell.inner_text()
    assert re.fullmatch(r"unfinished; as of the last checkpoint, step [\d,]+ of 1,000,000 \(\d+%\)", before)
    expect(cell).not_to_have_text(before, timeout=60_000)


def test_the_page_is_there_within_ten_seconds_of_work(tmp_path: Path) -> None:
    """Seconds that its process has computed: others on this machine may make it wait."""
    with served(tmp_path / "runs", tmp_path / "log") as lab:
        computed = Path(f"/proc/{lab.process}/stat").read_text().rpartition(") ")[2].split()
        seconds = (int(computed[11]) + int(computed[12])) / os.sysconf("SC_CLK_TCK")
    assert 0.5 < seconds < 10
