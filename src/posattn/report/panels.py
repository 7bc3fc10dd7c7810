"""One panel of a figure: its curves with their bands, its axes and its level."""

from typing import Any

from matplotlib.axes import Axes

from posattn.studies.core.pictures import Curve, Picture


def draw(picture: Picture, panel: Axes, colours: dict[str, str], dotted: set[str]) -> None:
    """Draw a picture. Arms that are computed and not trained are dotted, over the others."""
    for curve in picture.curves:
        _line(curve, panel, colours[curve.arm], dotted=curve.arm in dotted)
    if picture.level is not None:
        panel.axhline(picture.level.value, color="#555555", linestyle="--", linewidth=1, label=picture.level.label)
    if picture.log:
        panel.set_yscale("log")
    _x_axis(picture, panel)
    panel.set_title(picture.title)
    panel.set_xlabel(picture.x_label)
    panel.set_ylabel(picture.y_label)
    panel.grid(alpha=0.25)


def _line(curve: Curve, panel: Axes, colour: str, *, dotted: bool) -> None:
    """The medians with a band from the lowest to the highest seed, and the published medians, dashed."""
    style: dict[str, Any] = {"color": colour, "marker": curve.marker, "markersize": 3}
    if curve.marker is None:
        style = {"color": colour, "linewidth": 2 if dotted else 1.2}
    if dotted:
        style |= {"linestyle": ":", "zorder": 3}
    x = [point.x for point in curve.points]
    panel.plot(x, [point.median for point in curve.points], label=curve.label, **style)
    lows, highs = [min(point.ours) for point in curve.points], [max(point.ours) for point in curve.points]
    panel.fill_between(x, lows, highs, color=colour, alpha=0.18, linewidth=0)
    known = [(point.x, point.published_median) for point in curve.points if point.published_median is not None]
    if known:
        style["linestyle"] = "--"
        panel.plot(*zip(*known, strict=True), label=f"{curve.label} (published)", **style, alpha=0.6)


def _x_axis(picture: Picture, panel: Axes) -> None:
    ticks = picture.ticks
    if picture.log_x:
        panel.set_xscale("log")
    if not ticks:
        if not picture.log_x:
            panel.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}k" if step >= 1000 else f"{step:g}")
    elif picture.log_x:
        if len(ticks) <= 6:  # the labels that matplotlib puts between decades run into each other
            panel.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
            panel.minorticks_off()
    elif len(ticks) <= 8 and all(float(tick).is_integer() for tick in ticks):
        panel.set_xticks(ticks)  # nobody has 2.5 layers
