"""The Python of every page of docs/ runs."""

from pathlib import Path

import pytest

from pages import run_python

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.usefixtures("as_users_run_it", "own_registries")
@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_python_of_a_page_runs_from_top_to_bottom(page: Path) -> None:
    run_python(page)
