"""A lab that runs as users run it, and Debian's Chromium in front of it. `make browser` runs these tests."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lab.serving import served

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / ".browser" / "screenshots"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A browser test that was skipped has shown nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small study that was run."""
    folder = tmp_path_factory.mktemp("lab") / "runs"
    command = [sys.executable, "-m", "posattn", "run", "ood-scale", "--preset", "smoke", "--task", "sum"]
    subprocess.run([*command, "--device", "cpu", "--out", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def address(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the lab is served."""
    with served(store, tmp_path_factory.mktemp("server") / "log") as lab:
        yield lab.address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield found
        found.close()


@contextmanager
def lab_page(browser: Browser, address: str, *, width: int = 1280, dark: bool = False) -> Iterator[Page]:
    """The lab's page, once all of it is there. It asks nobody but localhost, and its script raises nothing."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
    elsewhere, errors = [], []
    page.on("request", lambda request: elsewhere.append(request.url) if not is_local(request.url) else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.get_by_role("tab", name="Execute").wait_for()  # tabs come first, then one control after another
    page.get_by_role("button", name="Cancel").first.wait_for()
    expect(page.get_by_text("Loading...", exact=True)).to_have_count(0, timeout=30_000)
    yield page
    page.close()
    assert elsewhere == []
    assert errors == []


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with lab_page(browser, address) as found:
        yield found


def is_local(url: str) -> bool:
    return re.match(r"(https?|wss?)://(127\.0\.0\.1|localhost)[:/]|data:|blob:|about:", url) is not None


def keep(page: Page, name: str) -> None:
    """A screenshot of the whole page, to be looked at. Chromium paints only frames that are in sight."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    before = page.viewport_size
    assert before is not None
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": before["width"], "height": max(before["height"], height)})
    page.wait_for_timeout(400)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    page.set_viewport_size(before)
