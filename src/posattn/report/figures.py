"""Figures of a study: loss over its axis, one panel a task, our median and band beside the published curve."""

import math
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from io import BytesIO
from statistics import median
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from posattn.studies.core.results import Point, Results
from posattn.studies.core.study import Panel

FORMATS = ("png", "svg", "pdf")
LETTER = 0.064  # inches, a letter's mean width in a legend
#: Colours that can be told apart without seeing red or green, in the order in which arms appear.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def curves(results: Results) -> Figure:
    """One panel a task, or one a score that is followed through training.

    Solid: ours, with a band from the lowest to the highest seed; dashed: published.
    """
    panels = _followed(results) or _tasks(results)
    arms = list(dict.fromkeys(point.arm for point in results.points))
    colours = dict(zip(arms, (COLOURS[index % len(COLOURS)] for index in range(len(arms))), strict=True))
    columns = min(3, len(panels)) if len(panels) != 4 else 2
    rows = -(-len(panels) // columns)
    each = (4.2, 3.4) if len(panels) > 1 else (5.6, 4.8)
    figure = Figure(figsize=(each[0] * columns, each[1] * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel, (title, draw) in zip(axes.flat, panels.items(), strict=False):
        draw(panel, colours)
        panel.set_title(title)
    for panel in axes.flat[len(panels) :]:
        panel.set_visible(False)
    legends = [panel.get_legend_handles_labels() for panel in axes.flat]
    entries = {label: handle for found in legends for handle, label in zip(*found, strict=True)}
    if not entries:  # everything diverged
        return figure
    widest = 0.6 + LETTER * max(map(len, entries))  # with its line
    fitting = max(1, min(3, int(figure.get_figwidth() / widest)))
    place = {"loc": "outside lower center", "ncols": fitting, "frameon": False, "fontsize": 8}
    figure.legend(entries.values(), entries, **place)
    return figure


Draw = Callable[[Axes, dict[str, str]], None]


def _tasks(results: Results) -> dict[str, Draw]:
    shown = _drawn(results)
    tasks = dict.fromkeys(point.task for point in shown)
    return {task: partial(_panel, [point for point in shown if point.task == task], results) for task in tasks}


def _followed(results: Results) -> dict[str, Draw]:
    panels = results.study.panels(results.preset)
    return {panel.title: partial(_through_training, panel, results) for panel in panels}


def _drawn(results: Results) -> list[Point]:
    """Validation points belong to a curve only where the axis is not a property of the test sets."""
    by_test_set = all(case.x is None for case in results.cases)
    if results.study.drawn:
        return [point for point in results.points if point.test_set in results.study.drawn]
    return [point for point in results.points if not (by_test_set and point.test_set == "validation" and point.x == 0)]


def _through_training(spec: Panel, results: Results, panel: Axes, colours: dict[str, str]) -> None:
    """One score over the steps. What is computed and not trained is drawn as a dotted line over the others."""
    for arm, colour in colours.items():
        points = [point for point in results.points if (point.arm, point.test_set) == (arm, spec.score)]
        points = [point for point in points if point.x > 0 or not (spec.inverse or spec.log_steps)]
        points = [point for point in points if min(point.ours) > 0 or not (spec.log or spec.inverse)]
        points = [point for point in points if all(map(math.isfinite, point.ours))]  # what diverged is in the table
        if not points:
            continue
        steps = [point.x for point in points]
        values = [tuple(1 / value if spec.inverse else value for value in point.ours) for point in points]
        (line,) = panel.plot(steps, [median(found) for found in values], label=arm, color=colour, linewidth=1.2)
        if arm in _computed(results):
            line.set(linestyle=":", linewidth=2, zorder=3)
        lows, highs = [min(found) for found in values], [max(found) for found in values]
        panel.fill_between(steps, lows, highs, color=colour, alpha=0.18, linewidth=0)
    if spec.level is not None:
        _level(panel, spec.level, spec.level_label)
    if spec.log:
        panel.set_yscale("log")
    if spec.log_steps:
        panel.set_xscale("log")
    else:
        panel.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}k" if step >= 1000 else f"{step:g}")
    panel.set_xlabel("steps")
    panel.grid(alpha=0.25)


def _panel(points: list[Point], results: Results, panel: Axes, colours: dict[str, str]) -> None:
    curves: dict[tuple[str, str], list[Point]] = defaultdict(list)
    by_test_set = all(case.x is None for case in results.cases)
    for point in points:
        curves[point.arm, "" if by_test_set else point.test_set].append(point)
    several = len({test_set for _, test_set in curves}) > 1
    logarithmic = results.study.measure == "loss"
    for (arm, test_set), line in curves.items():
        line = sorted(line, key=lambda point: point.x)
        line = [point for point in line if point.median > 0 or not logarithmic]
        x = [point.x for point in line]
        label = f"{arm}, {test_set}" if several else arm
        marker = "s" if test_set in ("validation", *results.study.drawn[1:]) else "o"
        style: dict[str, Any] = {"color": colours[arm], "marker": marker, "markersize": 3}
        if arm in _computed(results):
            style |= {"linestyle": ":", "zorder": 3}
        panel.plot(x, [point.median for point in line], label=label, **style)
        panel.fill_between(
            x, [min(point.ours) for point in line], [max(point.ours) for point in line], color=colours[arm], alpha=0.18,
            linewidth=0,
        )  # fmt: skip
        known = [(point.x, point.published_median) for point in line if point.published_median is not None]
        if known:
            style["linestyle"] = "--"
            panel.plot(*zip(*known, strict=True), label=f"{label} (published)", **style, alpha=0.6)
    if points[0].task in results.study.levels:
        _level(panel, *results.study.levels[points[0].task])
    if logarithmic and any(math.isfinite(point.median) or point.published for point in points):
        panel.set_yscale("log")
    places = sorted({point.x for point in points})
    if max(places) > 50 and max(places) > 4 * min(places):
        panel.set_xscale("log")
        if len(places) <= 6:  # the labels that matplotlib puts between decades run into each other
            panel.set_xticks(places, [f"{place:,g}" for place in places])
            panel.minorticks_off()
    elif len(places) <= 8 and all(place.is_integer() for place in map(float, places)):
        panel.set_xticks(places)  # nobody has 2.5 layers
    panel.set_xlabel(results.study.axis)
    panel.set_ylabel(results.study.measure)
    panel.grid(alpha=0.25)


def _computed(results: Results) -> set[str]:
    """Arms that are computed, where others are trained."""
    found = {case.arm for case in results.cases if not case.trial.trained}
    return found if any(case.arm not in found for case in results.cases) else set()


def _level(panel: Axes, value: float, label: str) -> None:
    panel.axhline(value, color="#555555", linestyle="--", linewidth=1, label=label)


def weight_maps(matrices: dict[str, Tensor], title: str, *, dim: int) -> Figure:
    """W (tokens and positions below each other) and V (beside each other), on scales that are symmetric around 0."""
    figure = Figure(figsize=(3.0 * len(matrices), 3.2), layout="constrained")
    axes = figure.subplots(1, len(matrices), squeeze=False)[0]
    for panel, (name, matrix) in zip(axes, matrices.items(), strict=True):
        values = matrix.detach().cpu().numpy()
        most = max(float(abs(values).max()), 1e-12)
        drawn = panel.imshow(values, vmin=-most, vmax=most, cmap="RdBu", aspect="auto", interpolation="nearest")
        part = panel.axhline if name.startswith("W") else panel.axvline
        part(dim - 0.5, color="#555555", linewidth=0.6)
        panel.set_title(name, fontsize=8)
        panel.tick_params(labelsize=6)
        figure.colorbar(drawn, ax=panel, shrink=0.8).ax.tick_params(labelsize=6)
    figure.suptitle(title, fontsize=9)
    return figure


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
