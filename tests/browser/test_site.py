"""The docs in a real browser: they work from a folder, ask nothing of the web, and fit the window."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / ".browser" / "screenshots"
SHOWN = ("index", "getting-started", "gallery", "api/nn", "examples/watch_a_sort")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", made]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return made


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_no_page_asks_the_web_or_scrolls_sideways(browser, site, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, asked, wrong = context.new_page(), [], []
    context.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    page.on(
        "request", lambda request: None if request.url.startswith(("file:", "data:")) else asked.append(request.url)
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    pages = [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]
    for path in pages:
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wrong.append(f"{path.name} is wider than {width}")
        name = path.relative_to(site).with_suffix("").as_posix()
        if name in SHOWN:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOTS / f"docs-{name.replace('/', '-')}-{width}-{scheme}.png")
    assert len(pages) > 30
    assert (asked, wrong) == ([], [])
    context.close()


def test_the_search_works_in_a_folder(browser, site):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((site / "api" / "nn.html").as_uri())
    page.locator("input[name=query]").click()
    page.keyboard.type("homogeneous")
    page.locator(".md-search-result__item a").first.wait_for()
    first = page.locator(".md-search-result__item a").first
    assert "omogeneous" in first.inner_text()
    first.click()
    assert page.locator("h1").first.inner_text().strip("#\n ")
    assert not page.url.endswith("api/nn.html")
    page.context.close()
