"""Figures of a study: loss over its axis, one panel a task, our median and band beside the published curve."""

from collections import defaultdict
from io import BytesIO

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from posattn.studies.results import Point, Results

FORMATS = ("png", "svg", "pdf")
LETTER = 0.064  # inches, a letter's mean width in a legend
#: Colours that can be told apart without seeing red or green, in the order in which arms appear.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def curves(results: Results) -> Figure:
    """One panel a task. Solid: ours, with a band from the lowest to the highest seed; dashed: published."""
    tasks = list(dict.fromkeys(point.task for point in results.points))
    arms = list(dict.fromkeys(point.arm for point in results.points))
    colours = dict(zip(arms, (COLOURS[index % len(COLOURS)] for index in range(len(arms))), strict=True))
    columns = min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel, task in zip(axes.flat, tasks, strict=False):
        _panel(panel, [point for point in _drawn(results) if point.task == task], colours, results)
        panel.set_title(task)
    for panel in axes.flat[len(tasks) :]:
        panel.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    widest = 0.6 + LETTER * max(map(len, labels))  # with its line
    fitting = max(1, min(3, int(figure.get_figwidth() / widest)))
    figure.legend(handles, labels, loc="outside lower center", ncols=fitting, frameon=False, fontsize=8)
    return figure


def _drawn(results: Results) -> list[Point]:
    """Validation points belong to a curve only where the axis is not the scale."""
    by_scale = all(case.x is None for case in results.cases)
    if results.study.drawn:
        return [point for point in results.points if point.test_set in results.study.drawn]
    return [point for point in results.points if not (by_scale and point.test_set == "validation")]


def _panel(panel: Axes, points: list[Point], colours: dict[str, str], results: Results) -> None:
    curves: dict[tuple[str, str], list[Point]] = defaultdict(list)
    by_scale = all(case.x is None for case in results.cases)
    for point in points:
        curves[point.arm, "" if by_scale else point.test_set].append(point)
    for (arm, test_set), line in curves.items():
        line = sorted(line, key=lambda point: point.x)
        x = [point.x for point in line]
        label = f"{arm}, {test_set}" if test_set else arm
        marker = "s" if test_set in ("validation", *results.study.drawn[1:]) else "o"
        style = {"color": colours[arm], "marker": marker, "markersize": 3}
        panel.plot(x, [point.median for point in line], label=label, **style)
        panel.fill_between(
            x, [min(point.ours) for point in line], [max(point.ours) for point in line], color=colours[arm], alpha=0.18,
            linewidth=0,
        )  # fmt: skip
        known = [(point.x, point.published_median) for point in line if point.published_median is not None]
        if known:
            panel.plot(*zip(*known, strict=True), label=f"{label} (published)", linestyle="--", **style, alpha=0.6)
    if results.study.measure == "loss":
        panel.set_yscale("log")
    if max(point.x for point in points) > 50:
        panel.set_xscale("log")
        places = sorted({point.x for point in points})
        if len(places) <= 6:  # the labels that matplotlib puts between decades run into each other
            panel.set_xticks(places, [f"{place:,g}" for place in places])
            panel.minorticks_off()
    panel.set_xlabel(results.study.axis)
    panel.set_ylabel(results.study.measure)
    panel.grid(alpha=0.25)


def attention_map(attention: Tensor, title: str) -> Figure:
    """Every head of every layer as a picture: row i shows where node i reads from; the scratchpad is last."""
    layers, heads = attention.shape[:2]
    figure = Figure(figsize=(1.25 * layers, 1.35 * heads + 0.35), layout="constrained")
    axes = figure.subplots(heads, layers, squeeze=False)
    for layer in range(layers):
        for head in range(heads):
            panel = axes[head][layer]
            panel.imshow(attention[layer, head].detach().cpu().numpy(), vmin=0, vmax=1, cmap="Blues")
            panel.set_xticks([])
            panel.set_yticks([])
            panel.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7)
    figure.suptitle(title, fontsize=9)
    return figure


def rendered(figure: Figure, kind: str) -> bytes:
    """The figure as a file's content, the same bytes for the same figure."""
    buffer = BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.hashsalt": "posattn"}):
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()
