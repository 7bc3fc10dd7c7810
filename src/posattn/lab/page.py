"""The lab's page: controls for every tab, wired to the tabs' functions. Nothing is computed here."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gradio as gr

from posattn.lab.limits import MOST_LENGTH, MOST_SCALE
from posattn.lab.wiring import Wiring

EXAMPLE = "3 1 2 5 4 -1 0.5 7"
NUMBERS = "At most 64; x:y for a program with two inputs."
#: Seconds between two looks at the store.
FOLLOW = 3
#: What there is to choose from, as `tabs.catalogue` says.
Known = Mapping[str, Any]


class Action(NamedTuple):
    """A button, or another event, and the function of `tabs` that it calls: with `fixed`, then with what controls say.

    Controls are passed on as they come, unchecked by Gradio: the functions explain what is wrong with them.
    """

    label: str
    name: str
    inputs: list[Any]
    fixed: tuple[str, ...] = ()
    event: Any = None


def build(wiring: Wiring, *, store: str, folder: str) -> gr.Blocks:
    """The page. `store`: the results that Runs shows; `folder`: where files to download are written."""
    known = wiring.jobs.ask("catalogue")
    with gr.Blocks(title="posattn lab", analytics_enabled=False) as page:
        gr.Markdown("# posattn lab\nTransformers that execute algorithms through position, at work on this machine.")
        with gr.Tab("Execute"):
            _execute(wiring, known)
        with gr.Tab("Generalise"):
            _generalise(wiring, known)
        with gr.Tab("Attention"):
            _attention(wiring, known, folder)
        with gr.Tab("Select"):
            _select(wiring)
        with gr.Tab("Write"):
            _write(wiring, known, folder)
        with gr.Tab("Runs") as last:
            _runs(wiring, store, last)
    return page


def _execute(wiring: Wiring, known: Known) -> None:
    gr.Markdown("Pick a model, type numbers, and step through what its layers do to them.")
    with gr.Row():
        model = gr.Dropdown([*known["programs"], *known["trained"]], value="program: sort", label="Model")
        numbers = gr.Textbox(EXAMPLE, label="Numbers", info=NUMBERS, max_lines=3)
    proof = gr.Checkbox(label="Prove it", info="Compiled programs and looped models.")
    _buttons(wiring, Action("Run", "execute", [model, numbers, proof]), submit=numbers)


def _generalise(wiring: Wiring, known: Known) -> None:
    gr.Markdown("How models answer numbers c times as large as those they were trained on, and longer lists.")
    with gr.Row():
        task = gr.Dropdown(known["tasks"], value="sort", label="Task")
        scale = gr.Slider(1, MOST_SCALE, value=10, step=1, label="Scale c")
        length = gr.Slider(1, MOST_LENGTH, value=8, step=1, label="Length")
        seed = gr.Number(0, label="Seed", precision=0, minimum=0, maximum=2**31)
    _buttons(wiring, Action("Measure", "generalise", [task, scale, length, seed]))


def _attention(wiring: Wiring, known: Known, folder: str) -> None:
    gr.Markdown(
        "Every layer and head as a map, and who reads from whom as a graph. Numbers count where attention sees them."
    )
    with gr.Row():
        model = gr.Dropdown([*known["trained"], *known["programs"]], value="trained: sort, positional", label="Model")
        numbers = gr.Textbox(EXAMPLE, label="Numbers", info=NUMBERS, max_lines=3)
    upload = gr.UploadButton("Or upload a model: safetensors, at most 8 MB", file_types=[".safetensors"], size="sm")
    shown = Action("Show", "attention", [model, numbers])
    _buttons(wiring, shown, Action("", "upload", [upload, numbers], (folder,), upload.upload), submit=numbers)


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
    _buttons(wiring, Action("Descend", "select", [tokens, subset, width, rate, steps]))


def _write(wiring: Wiring, known: Known, folder: str) -> None:
    gr.Markdown(
        "A program of your own: who reads from whom in each round, and what becomes of it. It is read, never executed."
    )
    texts = known["texts"]
    start = gr.Dropdown(list(texts), value="cumsum", label="Start from")
    text = gr.Textbox(texts["cumsum"], label="Program", lines=16, max_lines=24, elem_classes="program")
    start.change(lambda name: texts.get(str(name), ""), start, text, api_visibility="private", queue=False)
    with gr.Row():
        domain = gr.Number(1000, label="Domain", info="Inputs lie in ± this.", minimum=1e-6, maximum=1e9)
        numbers = gr.Textbox(EXAMPLE, label="Numbers", info="As many as the program's length.", max_lines=3)
    _buttons(
        wiring,
        Action("Compile", "compile", [text, domain]),
        Action("Watch it run", "watch", [text, domain, numbers]),
        Action("Prove", "prove", [text, domain]),
        Action("Weights", "weights", [text, domain], (folder,)),
    )


def _runs(wiring: Wiring, store: str, tab: gr.Tab) -> None:
    gr.Markdown("What lies in the store. Trials that are being trained move on at every checkpoint.")
    last = gr.State("")
    with gr.Row():
        words = gr.Textbox(label="Filter", info="Words: a task, a model, finished, unfinished …", max_lines=1)
        follow = gr.Checkbox(True, label="Follow", info=f"Look again every {FOLLOW} seconds.")
    shown = _buttons(wiring, Action("List", "runs", [words], (store,)), submit=words)
    study = gr.Dropdown(label="Study", info="Studies that were run.", allow_custom_value=True)
    _buttons(wiring, Action("Report", "report", [study], (store,)))
    timer = gr.Timer(FOLLOW, active=False)
    quiet: Any = {"api_visibility": "private", "show_progress": "hidden"}
    looked = {"fn": wiring.quietly("runs", "follow", store), "inputs": [last, words], "outputs": [shown, last]}
    timer.tick(**looked, **quiet)
    tab.select(**looked, **quiet)
    tab.select(lambda: gr.Dropdown(wiring.jobs.ask("studies", store)), None, study, queue=False, **quiet)
    gr.on([tab.select, follow.change], lambda on: gr.Timer(active=bool(on)), follow, timer, queue=False, **quiet)


def _buttons(wiring: Wiring, *actions: Action, submit: Any = None) -> Any:
    """A button for every action and one to cancel; under them how it goes, and what came out.

    `submit`: a field in which Enter does the first action.
    """
    with gr.Row():
        first = actions[0]
        events = [
            action.event
            or gr.Button(action.label, variant="primary" if action is first else "secondary", min_width=100).click
            for action in actions
        ]
        cancel = gr.Button("Cancel", variant="stop", min_width=100)
    how = gr.HTML(elem_classes="how")
    shown = gr.HTML(elem_classes="shown")
    download = gr.File(label="Download", visible=False, interactive=False)
    for event, action in zip(events, actions, strict=True):
        gr.on(
            [event, submit.submit] if submit is not None and action is first else [event],
            wiring.handler(action.name, first.name, *action.fixed), action.inputs, [how, shown, download],
            api_name=action.name, concurrency_id="work", concurrency_limit=2, show_progress="hidden", preprocess=False,
        )  # fmt: skip
    cancel.click(wiring.cancel(first.name), None, None, api_visibility="private", queue=False, show_progress="hidden")
    return shown
