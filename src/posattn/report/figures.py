"""The figure of a study: one panel per task or score, our medians and bands beside the published curves."""

from io import BytesIO

from matplotlib import rc_context
from matplotlib.figure import Figure

from posattn.report.panels import draw
from posattn.studies.core.computed import Computed
from posattn.studies.core.results import Results

FORMATS = ("png", "svg", "pdf")
LETTER = 0.064  # inches, a letter's mean width in a legend
#: Colours that can be told apart without seeing red or green, in the order in which arms appear.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def curves(results: Results) -> Figure:
    """All panels of the study's view.

    Solid: ours, with a band from the lowest to the highest seed; dashed: published; dotted: computed, not trained.
    """
    pictures = results.study.view.pictures(results.preset, results.points)
    arms = list(dict.fromkeys(point.arm for point in results.points))
    colours = {arm: COLOURS[index % len(COLOURS)] for index, arm in enumerate(arms)}
    columns = min(3, len(pictures)) if len(pictures) != 4 else 2
    rows = -(-len(pictures) // columns)
    width, height = (4.2, 3.4) if len(pictures) > 1 else (5.6, 4.8)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel, picture in zip(axes.flat, pictures, strict=False):
        draw(picture, panel, colours, _computed(results))
    for panel in axes.flat[len(pictures) :]:
        panel.set_visible(False)
    _add_legend(figure)
    return figure


def _computed(results: Results) -> set[str]:
    """Arms that are computed, where others are trained."""
    found = {case.arm for case in results.cases if isinstance(case.trial, Computed)}
    return found if any(case.arm not in found for case in results.cases) else set()


def _add_legend(figure: Figure) -> None:
    """One legend for all panels, in as many columns as fit."""
    legends = [panel.get_legend_handles_labels() for panel in figure.axes]
    entries = {label: handle for found in legends for handle, label in zip(*found, strict=True)}
    if not entries:  # everything diverged
        return
    widest = 0.6 + LETTER * max(map(len, entries))  # with its line
    fitting = max(1, min(3, int(figure.get_figwidth() / widest)))
    place = {"loc": "outside lower center", "ncols": fitting, "frameon": False, "fontsize": 8}
    figure.legend(entries.values(), entries, **place)


def rendered(figure: Figure, kind: str) -> bytes:
    """The figure as a file's content, the same bytes for the same figure."""
    buffer = BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.hashsalt": "posattn"}):
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()
