"""The lab's page: controls for every tab, wired to the tabs' functions. Nothing is computed here."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr

from posattn.lab import models, tabs
from posattn.lab.embed import result, status
from posattn.lab.shown import Shown
from posattn.lab.work import Explanation, Jobs

EXAMPLE = "3 1 2 5 4 -1 0.5 7"


class Lab:
    """The page of one server. `folder`: where files to download are written; `store`: the results that Runs shows."""

    def __init__(self, *, store: str, folder: str, jobs: Jobs) -> None:
        self.store, self.folder, self.jobs = store, folder, jobs

    def page(self) -> gr.Blocks:
        with gr.Blocks(title="posattn lab", analytics_enabled=False) as page:
            gr.Markdown("# posattn lab\nTransformers that execute algorithms through position. All of it runs here.")
            with gr.Tab("Execute"):
                self._execute()
            with gr.Tab("Write"):
                self._write()
        return page

    def _execute(self) -> None:
        with gr.Row():
            model = gr.Dropdown([*models.programs(), *models.trained()], value="program: sort", label="Model")
            numbers = gr.Textbox(EXAMPLE, label="Numbers", info="At most 64; x:y for a program with two inputs.")
        proof = gr.Checkbox(label="Prove it", info="Compiled programs and looped models.")
        self._buttons({"Run": (tabs.execute, [model, numbers, proof], "execute")}, submit=numbers)

    def _write(self) -> None:
        names = [name.partition(": ")[2] for name in models.programs()]
        start = gr.Dropdown(names, value="cumsum", label="Start from")
        text = gr.Code(tabs.library_text("cumsum"), label="Program", lines=16, max_lines=24, language=None)
        start.change(tabs.library_text, start, text, api_name=False, queue=False)
        with gr.Row():
            domain = gr.Number(1000, label="Domain", info="Inputs lie in ± this.", minimum=1e-6, maximum=1e9)
            numbers = gr.Textbox(EXAMPLE, label="Numbers", info="As many as the program's length.")
        folder = gr.State(self.folder)
        self._buttons(
            {
                "Compile": (tabs.compiled, [text, domain], "compile"),
                "Watch it run": (tabs.watched, [text, domain, numbers], "watch"),
                "Prove": (tabs.proved, [text, domain], "prove"),
                "Weights": (tabs.weights, [text, domain, folder], "weights"),
            },
            file=True,
        )

    def _buttons(
        self,
        actions: dict[str, tuple[Callable[..., Shown], list[Any], str]],
        *,
        submit: Any = None,
        file: bool = False,
    ) -> None:
        """A button for every function and one to cancel; under them how it goes, and what came out."""
        with gr.Row():
            buttons = {
                name: gr.Button(name, variant="primary" if not at else "secondary", min_width=120)
                for at, name in enumerate(actions)
            }
            cancel = gr.Button("Cancel", min_width=120)
        how = gr.HTML(elem_classes="status")
        shown = gr.HTML(elem_classes="result")
        download = gr.File(label="Download", visible=file, interactive=False)
        for name, (function, inputs, api) in actions.items():
            handle = self._handler(function)
            triggers = [buttons[name].click] + ([submit.submit] if submit is not None else [])
            gr.on(
                triggers,
                handle,
                inputs,
                [how, shown, download],
                api_name=api,
                concurrency_id="work",
                concurrency_limit=2,
                show_progress="hidden",
            )
        cancel.click(self._cancel, None, None, api_name=False, queue=False, show_progress="hidden")

    def _handler(self, function: Callable[..., Shown]) -> Callable[..., Iterator[Sequence[Any]]]:
        def handle(request: gr.Request, *inputs: Any) -> Iterator[Sequence[Any]]:
            for event in self.jobs.run(_session(request), function, inputs):
                how = status(event, self.jobs.budget)
                if isinstance(event, Shown):
                    yield how, result(event), event.file
                elif isinstance(event, Explanation):
                    yield how, "", None
                else:
                    yield how, gr.skip(), gr.skip()

        return handle

    def _cancel(self, request: gr.Request) -> None:
        self.jobs.cancel(_session(request))


def _session(request: gr.Request) -> str:
    """Whose job it is; callers without a session cannot cancel, and nobody cancels theirs."""
    return request.session_hash or secrets.token_hex(8)
