"""Traces, attention and reports in a real browser: light and dark, wide and narrow, by mouse and by keyboard."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page

from posattn import engine, report, studies, zoo
from posattn.compile import library
from posattn.compile.show import trace
from posattn.html.trace import Frame, Trace, trace_page
from posattn.nn import LoopedPositionalTransformer
from posattn.studies.core import results

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / ".browser" / "screenshots"
X = torch.tensor([[3.0], [1], [2], [5], [4]])


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def chromium(browser: Browser) -> Browser:
    return browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every kind."""
    folder = tmp_path_factory.mktemp("pages")
    sorter = LoopedPositionalTransformer(schedule="bitonic", symmetry=("scale", "shift"), generator=seeded())
    ran = results.run(
        studies.get("ood-scale"),
        preset="smoke", tasks=("sum",), seeds=2, out=folder / "runs", device="cpu", reporter=engine.Lines(),
    )  # fmt: skip
    written = {
        "program": trace.page(library.get("sort", 5), X.double().numpy()),
        "filled": trace.page(library.get("sort", 5), np.array([[3.0], [1], [1000], [1000], [1000]]), given=2),
        "looped": report.model_page(sorter, X),
        "trained": report.model_page(zoo.load("sort", "standard"), X, exact=X[:, 0].sort().values),
        "attention": report.attention_page(report.attention_of(zoo.load("sort", "positional"), X), title="sort"),
        "report": report.report_page(ran, folder / "runs"),
    }
    found = {name: folder / f"{name}.html" for name in written}
    for name, text in written.items():
        found[name].write_text(text)
    return found


def opened(chromium: Browser, path: Path, *, width: int = 1280, scheme: str = "light") -> Page:
    """The page, at rest; an error in its script or a request to anywhere fails the test."""
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )  # fmt: skip
    page = context.new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else pytest.fail(asked.url))
    page.goto(path.as_uri())
    return page


KINDS = ("program", "filled", "looped", "trained", "attention", "report")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_fills_the_window_and_never_scrolls_sideways(chromium, pages, kind, width, scheme):
    page = opened(chromium, pages[kind], width=width, scheme=scheme)
    if kind in ("program", "filled", "looped", "trained"):
        page.evaluate("go(2); pick(1)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    body = page.evaluate("document.body.getBoundingClientRect().width")
    assert body >= 0.9 * width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{kind}-{width}-{scheme}.png", full_page=True)
    page.context.close()


CROSSINGS = """() => {
  const boxes = [...document.querySelectorAll("#svg .node rect")].map(r => r.getBoundingClientRect());
  const svg = document.getElementById("svg").getBoundingClientRect();
  let found = 0;
  for (const path of document.querySelectorAll("#svg .edge")) {
    const length = path.getTotalLength();
    for (let i = 0; i <= 40; i++) {
      const p = path.getPointAtLength(length * i / 40), x = p.x + svg.left, y = p.y + svg.top;
      if (boxes.some(b => x > b.left + 3 && x < b.right - 3 && y > b.top && y < b.bottom)) found++;
    }
  }
  return [document.querySelectorAll("#svg .edge").length, found];
}"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", ["program", "looped", "trained"])
def test_edges_never_run_behind_boxes(chromium, pages, kind, width):
    page = opened(chromium, pages[kind], width=width)
    page.evaluate("go(2)")
    edges, crossings = page.evaluate(CROSSINGS)
    assert edges > 5
    assert crossings == 0
    page.context.close()


def test_a_step_says_which_pairs_are_compared_and_what_changed(chromium, pages):
    page = opened(chromium, pages["program"])
    page.get_by_label("one step on").click()
    assert page.locator("#note").inner_text() == "round 1 of 6: compare-exchange with place xor 1; 2 nodes changed"
    assert page.locator("#list button").all_inner_texts() == ["0 ⇄ 1: 3 and 1, exchanged", "2 ⇄ 3: 2 and 5, kept"]
    assert page.locator("#svg .changed").evaluate_all("all => all.map(g => g.dataset.node)") == ["0", "1"]
    assert page.locator("#svg .edge.took").count() == 2
    page.context.close()


def fills(page: Page) -> list[list[int]]:
    """The colours of the nodes, as red, green and blue."""
    found = page.locator("#svg .here rect").evaluate_all("all => all.map(r => r.style.fill)")
    return [[int(part) for part in re.findall(r"\d+", one)] for one in found]


def test_values_of_one_sign_are_the_darker_the_larger_they_are(chromium, pages):
    page = opened(chromium, pages["program"])
    light = [sum(one) for one in fills(page)]
    assert [place for _, place in sorted(zip(light, range(5), strict=True))] == [3, 4, 0, 2, 1]  # of 3 1 2 5 4
    assert page.locator("#scale").inner_text() == ""
    page.context.close()


def test_values_of_both_signs_are_blue_below_0_and_orange_above(chromium, tmp_path):
    path = tmp_path / "signed.html"
    path.write_text(trace.page(library.get("sort", 4), np.array([[-1.0], [0.0], [100.0], [3.0]])))
    page = opened(chromium, path)
    below, zero, most, some = fills(page)
    assert below[2] > below[0]
    assert max(zero) - min(zero) < 10
    assert most[0] > most[2]
    assert some[0] > some[2]
    assert page.locator("#scale").inner_text() == "0"
    assert (page.locator("#low").inner_text(), page.locator("#high").inner_text()) == ("-100", "100")
    page.context.close()


def test_a_trace_says_honestly_whom_a_node_reads(chromium, tmp_path):
    """Four nodes: 0 reads all evenly, 1 mainly two others and a little of the third, 2 one alone."""
    weights = {0: (0.05, 0.05, 0.05, 0.05), 1: (0.6, 0.0, 0.3, 0.1), 2: (0.0, 1.0, 0.0, 0.0), 3: (0.45, 0.5, 0.05, 0.0)}
    reads = tuple((source, node, 1.0, w, 0) for node, row in weights.items() for source, w in enumerate(row) if w)
    frames = (
        Frame(note="the input", registers={"x": (1.0, 2.0, 3.0, 4.0)}),
        Frame(note="mix", registers={"x": (1.0, 2.0, 3.0, 4.0)}, heads=("head 1",), reads=reads),
    )
    path = tmp_path / "reads.html"
    path.write_text(trace_page(Trace(title="reads", step="layer", frames=frames, length=4)))
    page = opened(chromium, path)
    page.evaluate("go(1)")
    assert page.locator("#list button").all_inner_texts() == [
        "0 reads 3 nodes, none mainly: 1, as before",
        "1 reads 3 nodes: 2, as before",
        "2 reads 1 (2): 3, as before",
        "3 reads mainly 0 (1), 1 (2): 4, as before",
    ]
    page.context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_letters_of_a_reports_picture_can_be_read(chromium, pages, width):
    """The smallest have 8 points at 160 dots per inch."""
    page = opened(chromium, pages["report"], width=width)
    shown = "all => all.map(one => 8 / 72 * 160 * one.clientWidth / one.naturalWidth)"
    sizes = page.locator("picture img").evaluate_all(shown)
    assert len(sizes) == 1
    assert min(sizes) >= 9
    page.context.close()


def test_a_click_shows_attention_and_mlp(chromium, pages):
    page = opened(chromium, pages["program"])
    page.get_by_label("one step on").click()
    page.locator("#svg .here[data-node='0']").click()
    behind = page.locator("#behind").inner_text()
    assert "Attention of node 0" in behind
    assert "node 1" in behind
    assert "1.00 × 1" in behind
    assert "x = (max if upper0 else min)(x, other)" in behind
    assert "→ 1" in behind
    assert page.locator("#svg .read").evaluate_all("all => all.map(g => g.dataset.node)") == ["0", "1"]
    page.context.close()


def test_a_trained_models_layer_shows_heads_and_the_inside_of_its_mlp(chromium, pages):
    page = opened(chromium, pages["trained"])
    page.evaluate("go(4); pick(2)")
    behind = page.locator("#behind").inner_text()
    assert all(part in behind for part in ("head 1", "head 2", "attention brings", "MLP, hidden: 64 numbers"))
    assert page.locator("#behind .strip").count() == 4
    assert "largest error" in page.locator("#note").inner_text()
    page.context.close()


def test_everything_works_by_keyboard(chromium, pages):
    page = opened(chromium, pages["program"])
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("at") == 2
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("at") == 1
    order, focused = [], "document.activeElement.id || document.activeElement.getAttribute('aria-label') || ''"
    for _ in range(12):
        page.keyboard.press("Tab")
        order.append(page.evaluate(focused))
    assert order[:5] == ["back", "play", "next", "at", "register"]
    assert order[5] == "node 0: 1, was 3"
    page.locator("#svg .here[data-node='0']").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("picked") == 0
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    assert page.evaluate("picked") == 1
    page.context.close()


def test_play_runs_to_the_end_and_values_travel(chromium, pages):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(pages["program"].as_uri())
    page.get_by_text("▶ play").click()
    page.wait_for_function("at === 1 && moving > 0")
    assert page.locator("#svg .here.future").count() == 5  # they wait for what travels
    page.wait_for_function("at === F - 1 && !moving && timer === null", timeout=20_000)
    assert page.locator("#svg .here text").all_text_contents() == ["1", "2", "3", "4", "5"]
    context.close()


def test_a_map_of_attention_is_chosen_by_a_click_and_the_graph_by_a_threshold(chromium, pages):
    page = opened(chromium, pages["attention"])
    assert page.locator("#maps button").count() == 8
    page.locator("#maps button").nth(5).click()
    assert page.locator("#what").inner_text() == "layer 3, head 2"
    few = page.locator("#graph .edge").count()
    page.locator("#least").fill("1")
    assert page.locator("#graph .edge").count() > few
    page.context.close()


def test_a_report_unfolds_and_downloads_every_row(chromium, pages):
    page = opened(chromium, pages["report"])
    assert not page.locator("details table").is_visible()
    page.get_by_text("Every figure").click()
    assert page.locator("details table").is_visible()
    with page.expect_download() as begun:
        page.get_by_text("Download every seed").click()
    text = Path(begun.value.path()).read_text()
    assert begun.value.suggested_filename == "ood-scale.csv"
    assert len(text.splitlines()) == 1 + 2 * page.locator("details tbody tr").count()
    page.context.close()
