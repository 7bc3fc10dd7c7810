"""What README.md and docs/ say is true: their Python runs, their commands parse, what they point at is there.

`make docs` runs the Python of docs/ (`tests/site/test_pages.py`).

A Python block that cannot run here has `<!-- not run: why -->` on the line before it, and is only parsed.
"""

import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pages import Block, blocks, execute, run_python
from posattn import cli, studies, tasks
from posattn.compile import library

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md"))]
#: What a path in backticks starts with when it is meant as one of this repository's.
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples", ".ci")
OF_EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
OF_EVERY_GUIDE = pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(ROOT).as_posix())


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of every `posattn …` in a shell block, up to a pipe, a redirection or a comment."""
    for block in blocks(text):
        if block.language in ("console", "sh", "bash", "shell"):
            for line in block.code.replace("\\\n", " ").splitlines():
                called = re.match(r"(?:\$ )?(?:\S*/)?posattn(?= |$)(.*)", line.strip())
                if called:
                    lexer = shlex.shlex(called[1], posix=True, punctuation_chars=True)
                    lexer.whitespace_split = True
                    words = list(lexer)
                    ends = [at for at, word in enumerate(words) if re.fullmatch(r"[|&;<>()]+", word)]
                    yield words[: ends[0]] if ends else words


def parse(arguments: list[str]) -> None:
    """Read the arguments as the command would, with every check of theirs, and do nothing with them."""
    group = typer.main.get_group(cli.app)
    given: list[dict[str, Any]] = []
    for command in group.commands.values():
        command.callback = lambda **options: given.append(options)
    assert group.main(arguments, "posattn", standalone_mode=False) in (None, 0)  # 0: --help and --version
    for options in (options for options in given if not options.get("plugin")):  # whose names are in that file
        named = options.get("task") or []
        for task in [named] if isinstance(named, str) else named:
            tasks.get(task)
        if "study" in options:
            studies.get(options["study"])
        program = options.get("program") or options.get("show") or "sort"
        assert program in library.PROGRAMS or program.endswith(".pos")  # a file of the reader's


def mentioned(text: str) -> Iterator[list[str]]:
    """Every command in single backticks outside blocks, placeholders and all."""
    for found in re.findall(r"`(posattn(?: [^`]+)?)`", without_blocks(text)):
        yield shlex.split(found)[1:]


def without_blocks(text: str) -> str:
    return re.sub(r"^ *(`{3,})[^\n]*\n.*?^ *\1`* *$", "", text, flags=re.DOTALL | re.MULTILINE)


def targets(text: str) -> Iterator[str]:
    """What relative links and images point at."""
    for target in re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", without_blocks(text)):
        if not re.match(r"[a-z][a-z0-9+.-]*:", target):
            yield target


def paths(text: str) -> Iterator[str]:
    """What is in backticks and starts with one of this repository's folders."""
    for name in re.findall(r"`([^`\s]+/[^`\s]*)`", without_blocks(text)):
        if name.split("/")[0] in FOLDERS:
            yield name


def anchors(text: str) -> set[str]:
    """The names that headings get on GitHub."""
    headings = re.findall(r"^#+ +(.+?) *$", without_blocks(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.usefixtures("as_users_run_it", "own_registries")
def test_python_of_the_readme_runs_from_top_to_bottom() -> None:
    run_python(ROOT / "README.md")


@OF_EVERY_GUIDE
def test_blocks_that_are_not_run_parse(page: Path) -> None:
    for block in blocks(page.read_text()):
        check_syntax(block)


def check_syntax(block: Block) -> None:
    if block.language in ("python", "py") and ">>>" not in block.code:
        compile(textwrap.dedent(block.code), "block", "exec")
    elif block.language == "toml":
        tomllib.loads(block.code)


@OF_EVERY_PAGE
def test_commands_of_a_page_parse(page: Path) -> None:
    for arguments in commands(page.read_text()):
        try:
            parse(arguments)
        except Exception as error:
            raise AssertionError(f"{page.name}: posattn {shlex.join(arguments)}: {error}") from error


@OF_EVERY_GUIDE
def test_commands_and_options_that_a_page_mentions_exist(page: Path) -> None:
    assert [found for arguments in mentioned(page.read_text()) if (found := missing(arguments))] == []


def missing(arguments: list[str]) -> str | None:
    """The first command or option that is not there."""
    command: Any = typer.main.get_group(cli.app)
    for word in arguments:
        if word.startswith("-"):
            known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            if word.split("=")[0] not in known | {"--help"}:
                return word
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return word
            command = command.commands[word]
    return None


@OF_EVERY_GUIDE
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in targets(text):
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there.read_text()), f"{page.name} links to {target}"


@OF_EVERY_GUIDE
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert [name for name in paths(page.read_text()) if not any(ROOT.glob(name))] == []


# ---- the tests above can fail

PAGE = """
# A page, and more

See [this](#a-page-and-more), [that](docs/there.md "title"), [the web](https://example.org/x) and ![a](plot.png).
`src/posattn/nn/positional.py`, `docs/*.md`, `runs/3f2a/metrics.json`, `x/y`, `src/posattn/nowhere.py`.
`posattn train TASK --model MODEL`, `posattn`, `posattn trian`, `posattn train --sedes 3`.

```python
x = 1
```

<!-- not run: there is no such machine -->
```python
x = 2
```

```console
$ posattn train sort --steps 3 \\
    --seeds 2 | tee log
3 seeds
$ posattn --version
```

```sh
.venv/bin/posattn tasks   # all of them
posattnx train
```

````md
```python
raise SystemExit  # [no](link.md) `src/no.py`
```
````
"""


def test_blocks_are_found_with_their_lines_and_those_left_out() -> None:
    found = list(blocks(PAGE))
    assert [(block.language, block.left_out) for block in found] == [
        ("python", False), ("python", True), ("console", False), ("sh", False), ("md", False),
    ]  # fmt: skip
    assert [block.code for block in found[:2]] == ["x = 1", "x = 2"]
    assert PAGE.splitlines()[found[0].line - 1] == "x = 1"
    with pytest.raises(AssertionError, match="line 2 never ends"):
        list(blocks("\n```python\nx = 1\n"))


@pytest.mark.parametrize(("language", "code"), [("python", "x = = 1"), ("toml", "x = y")])
def test_a_block_with_a_mistake_does_not_parse(language: str, code: str) -> None:
    with pytest.raises((SyntaxError, tomllib.TOMLDecodeError)):
        check_syntax(Block(language, code, 1, True))


def test_a_reason_is_needed_to_leave_a_block_out() -> None:
    for comment in ("<!-- not run: -->", "<!-- not run -->", "<!-- not run: slow -->\n"):
        assert [block.left_out for block in blocks(f"{comment}\n```python\nx\n```\n")] == [False]


def test_blocks_share_their_names_and_an_error_has_its_line() -> None:
    names: dict[str, Any] = {}
    execute(Block("python", "x = 3", 5, False), names, "page.md")
    execute(Block("python", ">>> x + 1\n4\n>>> y = x", 8, False), names, "page.md")
    assert names["y"] == 3
    with pytest.raises(NameError) as raised:
        execute(Block("python", "\nunknown", 20, False), names, "page.md")
    assert raised.traceback[-1].lineno + 1 == 21
    with pytest.raises(AssertionError, match="Expected"):
        execute(Block("python", ">>> x + 1\n5", 1, False), names, "page.md")


def test_commands_are_found_and_parsed() -> None:
    found = list(commands(PAGE))
    assert found == [["train", "sort", "--steps", "3", "--seeds", "2"], ["--version"], ["tasks"]]
    for arguments in found:
        parse(arguments)


@pytest.mark.parametrize(
    "line",
    [
        "trian sort",
        "train",
        "train sort --sedes 3",
        "train sort --steps many",
        "train sotr",
        "bench --fleet",
        "tasks x",
    ],
)
def test_a_command_that_would_be_refused_does_not_parse(line: str) -> None:
    with pytest.raises(Exception, match=r".+"):
        parse(line.split())


def test_what_is_mentioned_is_found() -> None:
    assert [missing(arguments) for arguments in mentioned(PAGE)] == [None, None, "trian", "--sedes"]
    assert list(targets(PAGE)) == ["#a-page-and-more", "docs/there.md", "plot.png"]
    assert list(paths(PAGE)) == ["src/posattn/nn/positional.py", "docs/*.md", "src/posattn/nowhere.py"]
    assert anchors(PAGE) == {"a-page-and-more"}


def test_an_empty_page_is_true() -> None:
    assert not [*blocks(""), *commands(""), *mentioned(""), *targets(""), *paths("")]
