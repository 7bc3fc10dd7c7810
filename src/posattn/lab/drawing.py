"""Curves for the lab's panels, in the colours of reports."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from posattn.report.figures import COLOURS, LETTER

MARKERS = "os^Dv"


class Panel(NamedTuple):
    """Curves by name, each a list of (x, y), on logarithmic axes."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    mark: float | None = None  # an x that is marked
    floor: float = 0.0  # what lies below is drawn there, and says so: the axis is for what is compared


def drawn(*panels: Panel) -> Figure:
    """The panels beside each other, with one legend."""
    figure = Figure(figsize=(max(7.0, 5.2 * len(panels)), 4.2), layout="constrained")
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw(panel, axes, names)
    entries = {
        label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if entries:
        fitting = int(figure.get_figwidth() / (0.8 + 1.2 * LETTER * max(map(len, entries))))
        columns = max(1, min(3, fitting))
        figure.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
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
