"""A report is whole, self-contained, and says what the results say."""

import re
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from posattn import engine, report, studies
from posattn.report import figures
from posattn.studies import results, table


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
        if tag not in ("meta", "img", "link", "br"):
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
    assert len(links.found) == 3
    assert all(link.startswith("data:image/png;base64,") for link in links.found)


def test_page_shows_every_cell_of_the_table(made):
    links = Links()
    links.feed(made[1].read_text())
    assert links.cells == [cell for row in table.cells(made[0]) for cell in row]


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
    assert {"standard", "standard (published)", "positional", "positional (published)", "homogeneous"} == set(lines)
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
