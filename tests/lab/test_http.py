"""The lab as other programs reach it."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .fuzzing import complaints, what_is_wrong
from .odd_inputs import odd_calls
from .serving import Answer, call, served

pytestmark = pytest.mark.xdist_group("lab")
HERE = Path(__file__)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("lab")
    with served(folder / "runs", folder / "log") as lab:
        yield lab.address


def test_a_right_call_is_answered(address: str) -> None:
    answer = call(address, "execute", ["program: sort", "3 1 2", False])
    how, shown, _ = answer.data
    assert (answer.event, how) == ("complete", "")
    assert "sort on 3 numbers" in shown


def test_50_odd_inputs_get_an_explanation_each(address: str) -> None:
    assert complaints(address, list(odd_calls(50, seed=0))) == []


@pytest.mark.parametrize("inputs", [[], ["program: sort"], ["program: sort", "3 1 2", False, 4], None, "3 1 2", {}])
def test_a_malformed_call_gets_one_line(address: str, inputs: Any) -> None:
    """And leaves no stack trace in the log, which `served` looks for at the end."""
    answer = call(address, "execute", inputs)
    assert answer.event == "error"
    assert list(json.loads(answer.said)) == ["error"]
    assert "\n" not in json.loads(answer.said)["error"]


@pytest.mark.parametrize("file", ["/etc/passwd", str(HERE), HERE.name, "../../../../etc/passwd"])
def test_files_from_elsewhere_are_not_served(address: str, file: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match=r"403|404"):
        urllib.request.urlopen(f"{address}/gradio_api/file={file}", timeout=20)


def test_another_hosts_name_is_refused_so_that_no_foreign_page_reads_along(address: str) -> None:
    asked = urllib.request.Request(f"{address}/config", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(asked, timeout=20)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (Answer("complete", ["", "", None]), "neither"),
        (Answer("complete", ['<p class="explanation" role="alert">The work ended by itself</p>', "", None]), "crash"),
        (Answer("error", {"error": None}), "without"),
        (Answer("error", 'Traceback (most recent call last): File "a.py"'), "stack trace"),
        (Answer("heartbeat", None), "event"),
    ],
)
def test_what_must_not_happen_is_noticed(answer: Answer, wrong: str) -> None:
    assert wrong in what_is_wrong(answer)
