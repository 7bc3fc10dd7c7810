"""Every odd call gets an explanation, or an answer; never a stack trace, a crash or a hang."""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .serving import Answer, call

#: Seconds for one call: the lab's budget, its queue, and a machine that does other things too.
LONGEST = 60.0


def complaints(address: str, calls: Sequence[tuple[str, list[Any]]]) -> list[str]:
    """What is wrong with the answers to some calls."""
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda one: _complaint(address, *one), calls)
        return [text for text in found if text]


def _complaint(address: str, name: str, inputs: list[Any]) -> str:
    began = time.monotonic()
    try:
        answer = call(address, name, inputs, seconds=LONGEST)
    except OSError as error:
        return f"{name}({inputs!r:.200}): {error!r} after {time.monotonic() - began:.0f} s"
    wrong = what_is_wrong(answer)
    return f"{name}({inputs!r:.200}): {wrong}: {answer.said[:400]}" if wrong else ""


def what_is_wrong(answer: Answer) -> str:
    """Nothing, or what an answer has that it must not have, or has not that it must."""
    if "Traceback" in answer.said or re.search(r'File \\?"[^"]*\.py', answer.said):
        return "a stack trace"
    if answer.event == "error":
        said = answer.data.get("error") if isinstance(answer.data, dict) else answer.data
        return "" if isinstance(said, str) and len(said) > 10 else "an error without an explanation"
    if answer.event != "complete":
        return f"the event {answer.event}"
    how, shown, _ = answer.data
    if "ended by itself" in how:
        return "a crash"
    if "<script>alert" in how:
        return "text that became a script"
    explained = re.search(r'<p class="explanation" role="alert">.{10,}</p>', how, flags=re.DOTALL)
    return "" if explained or "<iframe" in shown else "neither an answer nor an explanation"
