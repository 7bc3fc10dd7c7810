"""Notebooks as pages: `python docs/site/notebooks.py` runs those in examples/ and writes them to docs/examples/.

A page has a notebook's text, its code, and what the code printed or drew. Cells run in the order in which they stand.
"""

import ast
import contextlib
import io
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "examples"
NOTEBOOKS = ("watch_a_sort", "homogeneous_against_standard", "learn_snap_prove")


class Cell(NamedTuple):
    text: str | None  # of a cell that is Markdown alone
    code: str


def cells(name: str) -> Iterator[Cell]:
    """The cells of a notebook, the one that imports marimo left out."""
    source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            body = [line for line in node.body if not isinstance(line, ast.Return)]
            lines = source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno]
            code = textwrap.dedent("\n".join(lines))
            match body:
                case [ast.Expr(ast.Call(ast.Attribute(ast.Name("mo"), "md"), [ast.Constant(str(text))]))]:
                    yield Cell(textwrap.dedent(text).strip(), code)
                case [ast.Import([ast.alias("marimo")])]:
                    pass
                case _:
                    yield Cell(None, code)


def shown(code: str, names: dict[str, Any]) -> tuple[str, Figure | None]:
    """Run a cell: what it printed, and the figure that it ends with."""
    parsed = ast.parse(code)
    last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(parsed, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue().rstrip(), value if isinstance(value, Figure) else None


def page(name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook's page, and its pictures by the names of their files."""
    from posattn.report import rendered

    parts, pictures, names = [], {}, {"__name__": name}
    for cell in cells(name):
        if cell.text is not None:
            parts.append(cell.text)
            if len(parts) == 1:
                parts.append(
                    f"This is a notebook: [`examples/{name}.py`](../../examples/{name}.py). {USE.format(name)}"
                )
            continue
        parts.append(f"<!-- not run: tests/site runs the notebook -->\n```python\n{cell.code}\n```")
        printed, figure = shown(cell.code, names)
        if printed:
            parts.append(f"```text\n{printed}\n```")
        if figure is not None:
            file = f"{name}-{len(pictures) + 1}.png"
            pictures[file] = rendered(figure, "png")
            parts.append(f"![{title(figure)}]({file})")
    return "\n\n".join(parts) + "\n", pictures


USE = "`python examples/{0}.py` runs it, and `marimo edit examples/{0}.py` opens it (extra `docs`)."


def title(figure: Figure) -> str:
    """What a picture is called, for those who cannot see it."""
    return figure.get_suptitle() or figure.axes[0].get_title()


def main() -> None:
    for name in sys.argv[1:] or NOTEBOOKS:
        text, pictures = page(name)
        PAGES.mkdir(exist_ok=True)
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
        for file, picture in pictures.items():
            (PAGES / file).write_bytes(picture)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", PAGES], check=True)  # lines are shorter there


if __name__ == "__main__":
    main()
