"""Malformed calls over HTTP, without a server: each is refused in one line, and the others reach the page."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posattn.lab.calls import CheckedCalls, Message, Receive, Send, Taken

BOTH = [Taken("Model"), Taken("Numbers")]
TAKES: dict[str | int, list[Taken]] = {"execute": BOTH, 7: BOTH, 9: [], "upload": [Taken("File", is_file=True)]}
FILE = {"_type": "gradio.FileData"}
CALL, RUN, JOIN = "/gradio_api/call/execute", "/gradio_api/run/predict", "/gradio_api/queue/join"


async def echo(scope: Any, receive: Receive, send: Send) -> None:
    """A page that answers with what it was sent."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def sent(path: str, body: bytes, app: Callable[..., Any] = echo, folder: str = "none") -> tuple[int, str]:
    """The status and the body of the answer; the call comes in two parts."""
    parts = [{"body": body[:5], "more_body": True}, {"body": body[5:], "more_body": False}]
    found: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", **parts.pop(0)}

    async def send(message: Message) -> None:
        found.append(message)

    scope = {"type": "http", "method": "POST", "path": path}
    asyncio.run(CheckedCalls(app, takes=TAKES, folder=folder)(scope, receive, send))
    assert [message["type"] for message in found] == ["http.response.start", "http.response.body"]
    return found[0]["status"], found[1]["body"].decode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CALL, '{"data": ["m", null]}'),
        (CALL + "/", '{"data": [{}, []], "fn_index": 99}'),
        (JOIN, '{"data": ["m", "1"], "fn_index": 7}'),
        (RUN, '{"data": [], "fn_index": 9}'),
        ("/gradio_api/run/execute", '{"data": ["é", "1"]}'),
    ],
)
def test_a_right_call_reaches_the_page_as_it_is(path: str, body: str) -> None:
    assert sent(path, body.encode()) == (200, body)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (CALL, b'{"data": ["m"]}', "execute takes 2 values (Model, Numbers), and 1 came"),
        (CALL, b'{"data": [1, 2, 3]}', "execute takes 2 values (Model, Numbers), and 3 came"),
        (CALL, b'{"data": null}', "the call has no list of values"),
        (CALL, b'{"data": "ab"}', "the call has no list of values"),
        (CALL, b"{}", "the call has no list of values"),
        (CALL, b"null", "the call has no list of values"),
        (CALL, b"[1, 2]", "the call has no list of values"),
        (CALL, b"", "the call is not JSON"),
        (CALL, b"\xff\xfe", "the call is not JSON"),
        pytest.param(CALL, b"[" * 100_000, "the call is not JSON", id="deep"),
        pytest.param(CALL, b"[" * (4 * 1024 * 1024 + 1), "the call has more than 4,194,304 bytes", id="large"),
        ("/gradio_api/call/excute", b'{"data": []}', "did you mean 'execute'"),
        (JOIN, b'{"data": ["m", "1"]}', "unknown function None"),
        (JOIN, b'{"data": ["m", "1"], "fn_index": 8}', "unknown function 8"),
        (JOIN, b'{"data": ["m", "1"], "fn_index": [7]}', "unknown function [7]"),
        (RUN, b'{"data": [1], "fn_index": 9}', "9 takes no values, and 1 came"),
    ],
)
def test_a_malformed_call_is_refused_in_one_line(path: str, body: bytes, said: str) -> None:
    status, answer = sent(path, body)
    assert status == 400
    assert said in json.loads(answer)["error"]
    assert "\n" not in json.loads(answer)["error"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("upload", "text", "there is no file"),
        ("upload", 5, "there is no file"),
        ("upload", {"path": "/etc/passwd"}, "there is no file"),
        ("upload", {"path": 5, "meta": FILE}, "there is no file"),
        ("upload", {"path": "/etc/passwd", "meta": FILE}, "'passwd' was not uploaded here"),
        ("upload", {"path": "http://localhost/x", "meta": FILE}, "'x' was not uploaded here"),
        ("execute", {"path": "/etc/passwd", "meta": FILE}, "'passwd' was not uploaded here"),
        ("execute", [{"a": {"path": "/etc/passwd", "meta": FILE}}], "'passwd' was not uploaded here"),
        ("execute", {"path": "/etc/passwd", "meta": 5}, "there is no file"),
        ("execute", json.loads("[" * 40 + "]" * 40), "nested more than 32 deep"),
    ],
)
def test_no_file_that_was_not_uploaded_reaches_the_page(tmp_path: Path, name: str, value: Any, said: str) -> None:
    values = [value] if name == "upload" else [value, "1"]
    status, answer = sent(f"/gradio_api/call/{name}", json.dumps({"data": values}).encode(), folder=str(tmp_path))
    assert (status, said in json.loads(answer)["error"]) == (400, True)


def test_an_uploaded_file_and_none_reach_the_page(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    file.write_bytes(b"x")
    for value in (None, {"path": str(file), "meta": FILE}):
        body = json.dumps({"data": [value]})
        assert sent("/gradio_api/call/upload", body.encode(), folder=str(tmp_path)) == (200, body)


def test_what_the_page_refuses_as_malformed_hides_its_inside() -> None:
    async def refusing(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 422, "headers": []})
        await send({"type": "http.response.body", "body": b'{"detail": [{"loc": ["body"]}]}'})

    status, answer = sent("/gradio_api/reset", b"{}", refusing)
    assert (status, "detail" in answer) == (400, False)


def test_what_the_page_fails_at_is_one_line_to_the_caller_and_one_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    async def failing(scope: Any, receive: Receive, send: Send) -> None:
        raise TypeError("secret")

    status, answer = sent("/gradio_api/call/v2/execute", b"{}", failing)
    assert status == 400
    assert json.loads(answer)["error"].startswith("the lab cannot answer this")
    assert capfd.readouterr().err == "posattn lab: '/gradio_api/call/v2/execute' failed: TypeError\n"
