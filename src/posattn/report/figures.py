"""The figure of a study: one panel per task or score, our medians and bands beside the published curves."""

import math
import textwrap
from collections.abc import Collection, Sequence
from io import BytesIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from posattn.studies.core.points import Curve, Picture
from posattn.studies.core.results import Results
from posattn.studies.core.sentence import span
from posattn.train.changes import written

FORMATS = ("png", "svg", "pdf")
FAR_BELOW = 1000  # times: what lies further below the rest is named, not drawn to scale
LETTER, LINE = 0.064, 0.18  # inches, a letter's mean width and a line's height in a legend
NARROW = (3.6, 3.2)  # inches: a panel on a narrow page, whose letters are then about as large as the page's
#: Colours that can be told apart without seeing red or green, in the order in which arms appear.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
#: Arms beyond them have the same colours again, in another style.
AGAIN: dict[str, Any] = {"linestyle": "-.", "marker": "^"}


def curves(results: Results, *, narrow: bool = False) -> Figure:
    """All panels of the study's view, below each other on narrow pages.

    Solid: ours, with a band from the lowest to the highest seed; dashed: published; dotted: computed, not trained.
    """
    arms = list(dict.fromkeys(point.arm for point in results.points))
    computed = {case.arm for case in results.cases if not case.trial.trained}
    dotted = computed if any(case.arm not in computed for case in results.cases) else set[str]()
    figure = panels(results.study.view.pictures(results.preset, results.points), arms, dotted=dotted, narrow=narrow)
    if results.record.changes:  # a figure may be shown without its page
        changed = ", ".join(written(path, value) for path, value in results.record.changes.items())
        lines = textwrap.wrap(f"changed: {changed}", int(figure.get_figwidth() / LETTER))
        figure.suptitle("\n".join(lines), fontsize=8)
    return figure


def panels(
    pictures: Sequence[Picture], arms: Sequence[str], *, dotted: Collection[str] = (), narrow: bool = False
) -> Figure:
    """Pictures beside and below each other, or all below each other, with one style for each arm and one legend."""
    styles = {
        arm: {"color": COLOURS[index % len(COLOURS)]} | (AGAIN if index >= len(COLOURS) else {})
        for index, arm in enumerate(arms)
    }
    columns = 1 if narrow else 2 if len(pictures) == 4 else max(1, min(3, len(pictures)))
    rows = max(1, -(-len(pictures) // columns))
    width, height = NARROW if narrow else (4.2, 3.4) if len(pictures) > 1 else (5.6, 4.8)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel, picture in zip(axes.flat, pictures, strict=False):
        _draw(picture, panel, styles, dotted)
    for panel in axes.flat[len(pictures) :]:
        panel.set_visible(False)
    rows = _add_legend(figure)
    if narrow:
        figure.set_figheight(figure.get_figheight() + LINE * rows)
    return figure


def _draw(picture: Picture, panel: Axes, styles: dict[str, dict[str, Any]], dotted: Collection[str]) -> None:
    """Draw a picture. Arms that are computed and not trained are dotted, over the others, or a floor far below them."""
    floors = floors_of(picture, dotted)
    for curve in picture.curves:
        if curve not in floors:
            _line(curve, panel, styles[curve.arm], dotted=curve.arm in dotted, published=picture.published)
    if picture.level is not None:
        panel.axhline(picture.level.value, color="#555555", linestyle="--", linewidth=1, label=picture.level.label)
    if picture.log:
        panel.set_yscale("log")
    _x_axis(picture, panel)
    panel.set_title(picture.title)
    panel.set_xlabel(picture.x_label)
    panel.set_ylabel(picture.y_label)
    panel.grid(alpha=0.25)
    for row, curve in enumerate(floors):
        _floor(curve, panel, styles[curve.arm]["color"], row=row)


def floors_of(picture: Picture, computed: Collection[str]) -> list[Curve]:
    """Of the computed curves, those so far below all others that drawing them would press the others together."""
    if not picture.log:
        return []
    others = [one.median for curve in picture.curves if curve.arm not in computed for one in curve.points]
    others += [one.published_median or math.inf for curve in picture.curves for one in curve.points]
    lowest = min((value for value in others if value > 0), default=math.inf)
    if not math.isfinite(lowest):
        return []
    found = [curve for curve in picture.curves if curve.arm in computed and curve.points]
    return [curve for curve in found if max(point.median for point in curve.points) < lowest / FAR_BELOW]


def _floor(curve: Curve, panel: Axes, colour: str, *, row: int) -> None:
    """A band at the bottom of the panel that says what lies far below it."""
    low, high = panel.get_ylim()
    panel.set_ylim(low * (low / high) ** 0.1, high)  # room for the band, on an axis of powers
    values = [point.median for point in curve.points]
    bottom = 0.02 + 0.09 * row
    panel.add_patch(
        Rectangle((0, bottom - 0.02), 1, 0.08, transform=panel.transAxes, color=colour, alpha=0.3, linewidth=0)
    )
    said = f"↓ {curve.label}: {span(values)}"
    figure, place = panel.get_figure(root=True), panel.get_subplotspec()
    assert figure is not None
    assert place is not None  # one of several panels of a grid
    room = figure.get_figwidth() / place.get_gridspec().ncols - 0.8  # without what stands beside the axis
    size = min(8.0, 8.0 * room / (LETTER * len(said)))
    centred = {"transform": panel.transAxes, "ha": "center", "va": "center"}
    panel.text(0.5, bottom + 0.02, said, fontsize=size, color="#222", **centred)


def _line(curve: Curve, panel: Axes, own: dict[str, Any], *, dotted: bool, published: str) -> None:
    """The medians with a band from the lowest to the highest seed, and the published medians, dashed.

    `published`: the model that these are of, where it is not the curve's own; then they are grey.
    """
    style: dict[str, Any] = {"marker": curve.marker, "markersize": 3} | own
    if curve.marker is None:
        style = {"color": own["color"], "linewidth": 2 if dotted else 1.2}
    if dotted:
        style |= {"linestyle": ":", "zorder": 3}
    x = [point.x for point in curve.points]
    panel.plot(x, [point.median for point in curve.points], label=curve.label, **style)
    lows, highs = [min(point.ours) for point in curve.points], [max(point.ours) for point in curve.points]
    panel.fill_between(x, lows, highs, color=own["color"], alpha=0.18, linewidth=0)
    known = [(point.x, point.published_median) for point in curve.points if point.published_median is not None]
    if known:
        style["linestyle"] = "--"
        if published:
            style["color"] = "#555555"
        panel.plot(*zip(*known, strict=True), label=f"{published or curve.label} (published)", **style, alpha=0.6)


def _x_axis(picture: Picture, panel: Axes) -> None:
    ticks = picture.ticks
    if picture.tick_labels:
        slanted = {"rotation": 30, "ha": "right"} if sum(map(len, picture.tick_labels)) > 30 else {}
        panel.set_xticks(ticks, picture.tick_labels, **slanted)
        return
    if picture.log_x and ticks and ticks[0] == 0:  # has a place of its own, left of the powers
        panel.set_xscale("symlog", linthresh=ticks[1])
        panel.set_xlim(-ticks[1] / 4, 1.5 * ticks[-1])
    elif picture.log_x:
        panel.set_xscale("log")
    if not ticks:
        if not picture.log_x:
            panel.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}k" if step >= 1000 else f"{step:g}")
    elif picture.log_x:
        # The labels that matplotlib puts between decades run into each other.
        if len(ticks) <= 6:
            labels = [f"{tick:,.0f}" if tick >= 1 or tick == 0 else f"{tick:.3g}" for tick in ticks]
            slanted = {"rotation": 30, "ha": "right"} if max(map(len, labels)) > 5 else {}
            panel.set_xticks(ticks, labels, **slanted)
            panel.xaxis.set_minor_locator(NullLocator())
        elif ticks[-1] < 100 * ticks[0]:
            panel.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_minor_formatter(NullFormatter())
    elif len(ticks) == 1 or (len(ticks) <= 8 and all(float(tick).is_integer() for tick in ticks)):
        panel.set_xticks(ticks)  # nobody has 2.5 layers


def _add_legend(figure: Figure) -> int:
    """One legend for all panels, in as many columns as fit; how many rows it has."""
    legends = [panel.get_legend_handles_labels() for panel in figure.axes]
    entries = {label: handle for found in legends for handle, label in zip(*found, strict=True)}
    if not entries:  # everything diverged
        return 0
    widest = 0.6 + LETTER * max(map(len, entries))  # with its line
    fitting = max(1, min(3, int(figure.get_figwidth() / widest)))
    place = {"loc": "outside lower center", "ncols": fitting, "frameon": False, "fontsize": 8}
    figure.legend(entries.values(), entries, **place)
    return -(-len(entries) // fitting)


def rendered(figure: Figure, kind: str) -> bytes:
    """The figure as a file's content, the same bytes for the same figure."""
    buffer = BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.hashsalt": "posattn"}):
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()
