"""Nothing public goes without a bad case, and the table is as large as it says."""

from typing import Annotated

import typer

from posattn import cli

from .calls import CALLS
from .commands import lines, uncovered
from .spoil import missing
from .test_python import CASES
from .walk import public


def test_every_public_argument_has_a_bad_case() -> None:
    assert missing(public(), CALLS) == []


def test_every_option_and_argument_of_every_command_has_a_bad_case() -> None:
    assert uncovered(cli.app) == []


def test_there_are_at_least_400_cases() -> None:
    assert len(CASES) + len(lines(cli.app)) >= 400


def test_a_function_without_a_valid_call_is_noticed() -> None:
    def new(count: int) -> int:
        return count

    assert missing({"nn.new": new}, {}) == ["nn.new: no valid call"]


def test_an_argument_without_a_bad_case_is_noticed() -> None:
    def new(count: int, unheard_of) -> int:
        return count + unheard_of

    assert missing({"nn.new": new}, {"nn.new": lambda: {"count": 1}}) == ["nn.new(unheard_of): no bad case"]


def test_a_command_without_a_valid_line_and_an_option_without_a_bad_case_are_noticed() -> None:
    app = typer.Typer(add_completion=False)

    @app.command("tasks")
    def known(shade: Annotated[str, typer.Option()] = "") -> None:
        del shade

    @app.command("newer")
    def newer() -> None: ...

    assert uncovered(app) == ["newer: no valid line", "posattn tasks --shade: no bad case"]
