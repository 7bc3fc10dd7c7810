"""Curves for the lab's panels, in the colours of reports."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from posattn.report.figures import COLOURS


class Panel(NamedTuple):
    """Curves by name, each a list of (x, y), on logarithmic axes where it says so."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = True
    log_y: bool = True
    mark: float | None = None  # an x that is marked
    ticks: tuple[str, ...] = ()  # names for x = 0, 1, 2 …


def drawn(*panels: Panel) -> Figure:
    """The panels beside each other, with one legend."""
    figure = Figure(figsize=(5.2 * len(panels), 4.2), layout="constrained")
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name, points in panel.curves.items():
            shown = [(x, y) for x, y in points if y > 0 or not panel.log_y]
            marker = "o" if len(shown) < 40 else None
            axes.plot(
                [x for x, _ in shown], [y for _, y in shown], label=name, color=colours[name], marker=marker, ms=4
            )
        if panel.mark is not None:
            axes.axvline(panel.mark, color="#555555", linestyle="--", linewidth=1)
        if panel.log_x:
            axes.set_xscale("log")
        if panel.log_y and any(y > 0 for points in panel.curves.values() for _, y in points):
            axes.set_yscale("log")
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if panel.ticks:
            axes.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=45, ha="right", fontsize=8)
        axes.grid(alpha=0.25)
    handles = {
        label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure
