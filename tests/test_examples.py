"""The pages of notebooks show the notebooks that there are. `make docs` runs them (tests/site/test_notebooks.py)."""

import ast

import pytest

from notebooks import ROOT, script
from pages import blocks

WRITER = script()


@pytest.mark.parametrize("name", WRITER.NOTEBOOKS)
def test_a_page_has_the_text_and_the_code_of_its_notebook(name: str) -> None:
    page = (ROOT / "docs" / "examples" / f"{name}.md").read_text()
    cells = list(WRITER.cells(name))
    assert [cell.text for cell in cells if cell.text is not None and cell.text not in page] == []
    shown = [ast.dump(ast.parse(block.code)) for block in blocks(page) if block.language == "python"]
    assert shown == [ast.dump(ast.parse(cell.code)) for cell in cells if cell.text is None]


def test_what_a_cell_prints_and_draws_is_found() -> None:
    from matplotlib.figure import Figure

    names = {"Figure": Figure}
    assert WRITER.shown("x = 2\nprint(x)", names) == ("2", None)
    printed, figure = WRITER.shown("print(x + 1)\nFigure()", names)
    assert printed == "3"
    assert isinstance(figure, Figure)
