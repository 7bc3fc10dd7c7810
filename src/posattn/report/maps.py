"""Figures over two axes: a panel per model, the median over seeds as a colour and in numbers."""

import math

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from posattn.studies.core.points import Map

COLUMNS = 3
CELL = (0.56, 0.36)  # inches
#: What is smaller than float32's rounding, or larger than the answer itself, has the colour at the end.
LEAST, MOST = 1e-8, 1.0
COLOURS = "viridis_r"


def colour_map(shown: Map) -> Figure:
    """One panel per model, all with the same axes and colours. Hatched: the model was not run there."""
    arms = list(dict.fromkeys(point.arm for point in shown.points))
    xs, ys = sorted({point.x for point in shown.points}), sorted({point.y for point in shown.points if point.y})
    columns = min(COLUMNS, len(arms))
    rows = -(-len(arms) // columns)
    size = (columns * (CELL[0] * len(xs) + 0.45) + 1.4, rows * (CELL[1] * len(ys) + 0.75) + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    norm = LogNorm(LEAST, MOST, clip=True)
    drawn = None
    for panel, arm in zip(axes.flat, arms, strict=False):
        medians = {(point.x, point.y): point.median for point in shown.points if point.arm == arm}
        table = [[medians.get((x, y), math.nan) for x in xs] for y in ys]
        drawn = _panel(panel, table, norm)
        panel.set_title(arm, fontsize=8)
        panel.set_xticks(range(len(xs)), [f"{x:,g}" for x in xs], fontsize=6)
        panel.set_yticks(range(len(ys)), [f"{y:,g}" for y in ys], fontsize=6)
    for panel in axes.flat[len(arms) :]:
        panel.set_visible(False)
    for panel in axes.flat[max(0, len(arms) - columns) : len(arms)]:
        panel.tick_params(labelbottom=True)  # the lowest of its column, though the row below may be begun
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=axes, shrink=0.9, aspect=30, extend="both")
        bar.set_label(shown.measure, fontsize=8)
        bar.ax.tick_params(labelsize=6)
    figure.suptitle(shown.title, fontsize=9)
    figure.supxlabel(shown.x_label, fontsize=8)
    figure.supylabel(shown.y_label, fontsize=8)
    return figure


def _panel(panel: Axes, table: list[list[float]], norm: LogNorm) -> AxesImage:
    """A table as colours, its numbers written in the cells."""
    known = [[math.nan if math.isnan(value) else min(max(value, LEAST), MOST) for value in row] for row in table]
    drawn = panel.imshow(known, norm=norm, cmap=COLOURS, origin="lower", aspect="auto", interpolation="nearest")
    for y, row in enumerate(table):
        for x, value in enumerate(row):
            if math.isnan(value):
                corner = (x - 0.5, y - 0.5)
                panel.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor="#bbbbbb", linewidth=0))
                continue
            dark = norm(min(max(value, LEAST), MOST)) > 0.5
            panel.text(x, y, _short(value), ha="center", va="center", fontsize=6, color="white" if dark else "black")
    return drawn


def _short(value: float) -> str:
    """Two letters less than Python's: 7e-7, and 0.3 where a power of ten helps nobody.

    >>> [_short(value) for value in (0.0, 6.6e-7, 0.034, 0.28, 12.3)]
    ['0', '7e-7', '0.03', '0.3', '12']
    """
    if value == 0 or 0.01 <= value < 1000:
        return f"{value:.1g}" if value < 1 else f"{value:.0f}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
