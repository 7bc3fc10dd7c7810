"""Between Gradio's events and jobs: a generator of what the page shows while a job goes on, and after it."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from posattn.lab.embed import result, status
from posattn.lab.shown import Shown
from posattn.lab.work import Explanation, Jobs

#: What a handler gives: how it goes, what came out, and a file.
Update = tuple[Any, Any, Any]


class Wiring:
    """Handlers that run functions as jobs: one at a time for each session and tab."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def handler(self, name: str, tab: str, *fixed: str) -> Callable[..., Iterator[Update]]:
        def handle(request: gr.Request, *inputs: Any) -> Iterator[Update]:
            for event in self.jobs.run(_whose(request, tab), name, (*fixed, *inputs)):
                how = status(event, self.jobs.budget)
                if isinstance(event, Shown):
                    yield how, result(event), gr.File(event.file, visible=event.file is not None)
                elif isinstance(event, Explanation):
                    yield how, "", gr.File(None, visible=False)
                else:
                    yield how, gr.skip(), gr.skip()

        return handle

    def quietly(self, name: str, tab: str, *fixed: str) -> Callable[..., tuple[Any, str]]:
        """The same without a word on the way. What is shown stays unless it has changed since the `last` time."""

        def handle(request: gr.Request, last: str, *inputs: Any) -> tuple[Any, str]:
            *_, event = self.jobs.run(_whose(request, tab), name, (*fixed, *inputs))
            found = result(event) if isinstance(event, Shown) else last
            return (found if found != last else gr.skip()), found

        return handle

    def cancel(self, tab: str) -> Callable[[gr.Request], None]:
        def handle(request: gr.Request) -> None:
            self.jobs.cancel(_whose(request, tab))

        return handle


def _whose(request: gr.Request, tab: str) -> str:
    """Whose job it is. Callers without a session cannot cancel, and nobody cancels theirs."""
    return f"{request.session_hash or secrets.token_hex(8)}/{tab}"
