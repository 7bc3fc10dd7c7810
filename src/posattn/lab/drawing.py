"""Curves for the lab's panels, in the colours of reports."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from posattn.lab.panels import Drawn
from posattn.report.figures import COLOURS, LETTER, LINE, NARROW

MARKERS = "os^Dv"


class Panel(NamedTuple):
    """Curves by name, each a list of (x, y), on logarithmic axes."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    mark: float | None = None  # an x that is marked
    floor: float = 0.0  # what lies below is drawn there, and says so: the axis is for what is compared


def drawn(caption: str, *panels: Panel) -> Drawn:
    """The panels beside each other, or below each other on narrow pages, with one legend."""
    return Drawn(caption, _figure(panels, narrow=False), _figure(panels, narrow=True))


def _figure(panels: Sequence[Panel], *, narrow: bool) -> Figure:
    count = len(panels)
    size = (NARROW[0], NARROW[1] * count) if narrow else (max(7.0, 5.2 * count), 4.2)
    figure = Figure(figsize=size, layout="constrained")
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    places = figure.subplots(*((count, 1) if narrow else (1, count)), squeeze=False)
    for axes, panel in zip(places.flat, panels, strict=True):
        _draw(panel, axes, names)
    entries = {
        label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if entries:
        fitting = int(figure.get_figwidth() / (0.8 + 1.2 * LETTER * max(map(len, entries))))
        columns = max(1, min(3, fitting))
        figure.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        if narrow:
            figure.set_figheight(figure.get_figheight() + LINE * -(-len(entries) // columns))
    return figure


def _draw(panel: Panel, axes: Axes, names: Sequence[str]) -> None:
    lowest = []
    for name, points in panel.curves.items():
        at = names.index(name)
        shown = [(x, max(y, panel.floor)) for x, y in points if y > 0 or panel.floor > 0]
        lowest += [y for _, y in shown]
        style = {"marker": MARKERS[at % len(MARKERS)] if len(shown) < 40 else None, "ms": 5, "alpha": 0.9}
        axes.plot(*zip(*shown, strict=True), label=name, color=COLOURS[at % len(COLOURS)], **style) if shown else None
    if panel.mark is not None:
        axes.axvline(panel.mark, color="#555555", linestyle="--", linewidth=1)
    if lowest:
        axes.set_yscale("log")
    if panel.floor and min(lowest, default=1) <= panel.floor:
        axes.axhline(panel.floor, color="#999999", linewidth=0.8, zorder=0)
        said = f"at most {panel.floor:g}: right up to rounding"
        axes.annotate(
            said,
            (0.02, panel.floor),
            xycoords=("axes fraction", "data"),
            xytext=(0, 5),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelsize=8)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axes.grid(alpha=0.25)
