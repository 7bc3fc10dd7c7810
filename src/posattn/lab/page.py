"""The lab's page: controls for every tab, wired to the tabs' functions. Nothing is computed here."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gradio as gr

from posattn import zoo
from posattn.lab import models, tabs
from posattn.lab.limits import MOST_LENGTH, MOST_SCALE
from posattn.lab.shown import Shown
from posattn.lab.wiring import Wiring

EXAMPLE = "3 1 2 5 4 -1 0.5 7"
NUMBERS = "At most 64; x:y for a program with two inputs."
#: Seconds between two looks at the store.
FOLLOW = 3


class Action(NamedTuple):
    """A button, and what it does with which controls. `api`: its name for programs."""

    label: str
    function: Callable[..., Shown]
    inputs: list[Any]
    api: str


def build(wiring: Wiring, *, store: str, folder: str) -> gr.Blocks:
    """The page. `store`: the results that Runs shows; `folder`: where files to download are written."""
    with gr.Blocks(title="posattn lab", analytics_enabled=False) as page:
        gr.Markdown("# posattn lab\nTransformers that execute algorithms through position, at work on this machine.")
        with gr.Tab("Execute"):
            _execute(wiring)
        with gr.Tab("Generalise"):
            _generalise(wiring)
        with gr.Tab("Attention"):
            _attention(wiring)
        with gr.Tab("Select"):
            _select(wiring)
        with gr.Tab("Write"):
            _write(wiring, folder)
        with gr.Tab("Runs") as last:
            _runs(wiring, store, last)
    return page


def _execute(wiring: Wiring) -> None:
    gr.Markdown("Pick a model, type numbers, and step through what its layers do to them.")
    with gr.Row():
        model = gr.Dropdown([*models.programs(), *models.trained()], value="program: sort", label="Model")
        numbers = gr.Textbox(EXAMPLE, label="Numbers", info=NUMBERS, max_lines=3)
    proof = gr.Checkbox(label="Prove it", info="Compiled programs and looped models.")
    _buttons(wiring, Action("Run", tabs.execute, [model, numbers, proof], "execute"), submit=numbers)


def _generalise(wiring: Wiring) -> None:
    gr.Markdown("How models answer numbers c times as large as those they were trained on, and longer lists.")
    with gr.Row():
        task = gr.Dropdown(sorted({task for task, _ in zoo.names()}), value="sort", label="Task")
        scale = gr.Slider(1, MOST_SCALE, value=10, step=1, label="Scale c")
        length = gr.Slider(1, MOST_LENGTH, value=8, step=1, label="Length")
        seed = gr.Number(0, label="Seed", precision=0, minimum=0, maximum=2**31)
    _buttons(wiring, Action("Measure", tabs.generalise, [task, scale, length, seed], "generalise"))


def _attention(wiring: Wiring) -> None:
    gr.Markdown(
        "Every layer and head as a map, and who reads from whom as a graph. Numbers count where attention sees them."
    )
    with gr.Row():
        model = gr.Dropdown([*models.trained(), *models.programs()], value="trained: sort, positional", label="Model")
        numbers = gr.Textbox(EXAMPLE, label="Numbers", info=NUMBERS, max_lines=3)
    upload = gr.File(
        label="Or a model's file: safetensors, at most 8 MB", file_types=[".safetensors"], type="filepath", height=120
    )
    _buttons(wiring, Action("Show", tabs.attention, [model, numbers, upload], "attention"), submit=numbers)


def _select(wiring: Wiring) -> None:
    gr.Markdown(
        "A one-layer Transformer learns to average the q of T tokens that a query names: its descent in closed form."
    )
    with gr.Row():
        tokens = gr.Slider(2, MOST_LENGTH, value=200, step=1, label="T: tokens")
        subset = gr.Slider(1, 64, value=3, step=1, label="q: selected tokens")
        width = gr.Slider(1, 1024, value=5, step=1, label="d: coordinates of a token")
    with gr.Row():
        rate = gr.Number(1.0, label="η: step size", minimum=1e-6, maximum=100)
        steps = gr.Number(30_000, label="Steps", precision=0, minimum=1, maximum=200_000)
    _buttons(wiring, Action("Descend", tabs.select, [tokens, subset, width, rate, steps], "select"))


def _write(wiring: Wiring, folder: str) -> None:
    gr.Markdown(
        "A program of your own: who reads from whom in each round, and what becomes of it. It is read, never executed."
    )
    names = [name.partition(": ")[2] for name in models.programs()]
    start = gr.Dropdown(names, value="cumsum", label="Start from")
    text = gr.Textbox(tabs.library_text("cumsum"), label="Program", lines=16, max_lines=24, elem_classes="program")
    start.change(tabs.library_text, start, text, api_visibility="private", queue=False)
    with gr.Row():
        domain = gr.Number(1000, label="Domain", info="Inputs lie in ± this.", minimum=1e-6, maximum=1e9)
        numbers = gr.Textbox(EXAMPLE, label="Numbers", info="As many as the program's length.", max_lines=3)
    _buttons(
        wiring,
        Action("Compile", tabs.compiled, [text, domain], "compile"),
        Action("Watch it run", tabs.watched, [text, domain, numbers], "watch"),
        Action("Prove", tabs.proved, [text, domain], "prove"),
        Action("Weights", tabs.weights, [text, domain, gr.State(folder)], "weights"),
        file=True,
    )


def _runs(wiring: Wiring, store: str, tab: gr.Tab) -> None:
    gr.Markdown("What lies in the store. Trials that are being trained move by themselves.")
    held, last = gr.State(store), gr.State("")
    with gr.Row():
        words = gr.Textbox(label="Filter", info="Words: a task, a model, finished, running …", max_lines=1)
        follow = gr.Checkbox(True, label="Follow", info=f"Look again every {FOLLOW} seconds.")
    shown = _buttons(wiring, Action("List", tabs.runs, [held, words], "runs"), submit=words)
    study = gr.Dropdown(tabs.studies(store), label="Study", info="Studies that were run.", allow_custom_value=True)
    _buttons(wiring, Action("Report", tabs.study_report, [held, study], "report"))
    timer = gr.Timer(FOLLOW, active=False)
    quiet: Any = {"api_visibility": "private", "show_progress": "hidden"}
    looked = {"fn": wiring.quietly(tabs.runs, "follow"), "inputs": [last, held, words], "outputs": [shown, last]}
    timer.tick(**looked, **quiet)
    tab.select(**looked, **quiet)
    tab.select(lambda: gr.Dropdown(tabs.studies(store)), None, study, queue=False, **quiet)
    gr.on([tab.select, follow.change], lambda on: gr.Timer(active=bool(on)), follow, timer, queue=False, **quiet)


def _buttons(wiring: Wiring, *actions: Action, submit: Any = None, file: bool = False) -> Any:
    """A button for every action and one to cancel; under them how it goes, and what came out.

    `submit`: a field in which Enter does the first action; `file`: whether there may be something to download.
    """
    with gr.Row():
        first, *others = actions
        buttons = [gr.Button(first.label, variant="primary", min_width=100)]
        buttons += [gr.Button(action.label, min_width=100) for action in others]
        cancel = gr.Button("Cancel", variant="stop", min_width=100)
    how = gr.HTML(elem_classes="how")
    shown = gr.HTML(elem_classes="shown")
    download = gr.File(label="Download", visible=file, interactive=False)
    for button, action in zip(buttons, actions, strict=True):
        triggers = [button.click, *([submit.submit] if submit is not None and action is first else [])]
        gr.on(
            triggers, wiring.handler(action.function, first.api), action.inputs, [how, shown, download],
            api_name=action.api, concurrency_id="work", concurrency_limit=2, show_progress="hidden",
        )  # fmt: skip
    cancel.click(wiring.cancel(first.api), None, None, api_visibility="private", queue=False, show_progress="hidden")
    return shown
