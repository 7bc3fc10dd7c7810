"""Calls of the lab over HTTP: what is malformed is answered in one line, before Gradio sees it.

Gradio would answer with its own internals, and leave a stack trace in the log.
"""

import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from posattn.errors import PosattnError, counted, require, unknown
from posattn.lab.limits import MOST_DEPTH, uploaded_path

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: Where functions are called: by name, or as the page does it, by the number that comes with the values.
BY_NAME = re.compile(r"/gradio_api/call/([^/]+)/?")
BY_NUMBER = re.compile(r"/gradio_api/(?:queue/join|(?:run|api)/([^/]+)/?)")
#: Bytes of a call: far more than the longest text that the lab takes, which gets a better explanation.
MOST_CALL = 4 * 1024 * 1024
HOW = 'send {"data": […]} as JSON to /gradio_api/call/NAME'


class Taken(NamedTuple):
    """One value that a function takes."""

    label: str
    is_file: bool = False


class CheckedCalls:
    """ASGI middleware. `takes` says what functions take, by name and by number; files must lie in `folder`."""

    def __init__(self, app: Any, *, takes: Mapping[str | int, Sequence[Taken]], folder: str) -> None:
        self.app, self.takes, self.folder = app, takes, folder

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        named = BY_NAME.fullmatch(scope["path"]) if is_post else None
        called = named or (BY_NUMBER.fullmatch(scope["path"]) if is_post else None)
        if called:
            try:
                body = await _whole(receive)
                self.check(called[1], body, by_number=not named)
            except PosattnError as error:
                return await _refuse(send, str(error))
            receive = _again(body, receive)
        return await self._passed_on(scope, receive, send)

    def check(self, name: str | None, body: bytes, *, by_number: bool = False) -> None:
        """Raise where a call is malformed. `by_number`: the number of a function counts, where there is one."""
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            raise PosattnError(f"the call is not JSON: {HOW}.") from None
        given = said.get("data") if isinstance(said, dict) else None
        if not isinstance(given, list):
            raise PosattnError(f"the call has no list of values: {HOW}.")
        number = said.get("fn_index") if by_number else None
        called = name if number is None else number
        if not isinstance(called, str | int) or called not in self.takes:
            raise unknown("function", called, [known for known in self.takes if isinstance(known, str)])
        wanted, count = self.takes[called], len(given)
        labels = ", ".join(one.label for one in wanted)
        values = f"{counted(len(wanted), 'value')} ({labels})" if wanted else "no values"
        require(count == len(wanted), f"{called} takes {values}, and {count} came: {HOW}.")
        for value, one in zip(given, wanted, strict=True):
            self._check_files(value, is_file=one.is_file)

    def _check_files(self, value: Any, *, is_file: bool) -> None:
        """Gradio fetches whatever looks like a file, wherever it stands, and fails at what nearly does."""
        if is_file and value is not None and not _is_uploaded(value):
            value = {"path": None, "meta": None}
        level, deep = [value], 0
        while level:
            for part in level:
                if isinstance(part, dict) and {"path", "meta"} <= part.keys():
                    uploaded_path(self.folder, part if _is_uploaded(part) else None)
            level = [inner for part in level for inner in _inside(part)]
            deep += 1
            require(deep <= MOST_DEPTH, f"a value is nested more than {MOST_DEPTH} deep: send numbers and text.")

    async def _passed_on(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """What Gradio refuses as malformed, or fails at, is answered in one line."""
        begun = refused = False

        async def answer(message: Message) -> None:
            nonlocal begun, refused
            if message["type"] == "http.response.start" and message["status"] == 422:
                refused = True
                await _refuse(send, f"the call is malformed: {HOW}.")
            begun = True
            if not refused:
                await send(message)

        try:
            await self.app(scope, receive, answer)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            print(f"posattn lab: {scope['path'][:60]!r} failed: {type(error).__name__}", file=sys.stderr)
            await _refuse(send, f"the lab cannot answer this: {HOW}.")


def _is_uploaded(value: Any) -> bool:
    """Whether a value is a file, as Gradio describes one."""
    return isinstance(value, dict) and "path" in value and value.get("meta") == {"_type": "gradio.FileData"}


def _inside(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def taken(functions: Mapping[int, Any]) -> dict[str | int, list[Taken]]:
    """What Gradio's functions take, by number, and by name where they have one that others may call."""
    found: dict[str | int, list[Taken]] = {}
    for number, function in functions.items():
        found[number] = [
            Taken(str(getattr(one, "label", None) or "value"), is_file=hasattr(one, "file_types"))
            for one in function.inputs
        ]
        if function.api_name and function.api_visibility == "public":
            found[str(function.api_name)] = found[number]
    return found


async def _whole(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
        require(len(body) <= MOST_CALL, f"the call has more than {MOST_CALL:,} bytes: send less, or use the commands.")
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be read once more, and then whatever comes."""
    held = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return held.pop() if held else await receive()

    return next_message


async def _refuse(send: Send, why: str) -> None:
    content = json.dumps({"error": why}, ensure_ascii=False).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 400, "headers": head})
    await send({"type": "http.response.body", "body": content})
