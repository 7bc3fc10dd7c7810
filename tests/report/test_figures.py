"""Axes of curves are labelled whatever the range."""

from itertools import pairwise

import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from posattn.report.figures import panels
from posattn.studies.core.points import Curve, Picture, Point


def drawn(x: list[float], medians: list[float]) -> Axes:
    """A curve over a logarithmic axis, as in the report of a sweep."""
    points = tuple(Point("sum", "a", "set", at, (loss,), (), (0,)) for at, loss in zip(x, medians, strict=True))
    curve = Curve(arm="a", label="a", marker="o", points=points)
    picture = Picture(title="", curves=(curve,), x_label="lr", log=True, log_x=True, ticks=tuple(x))
    figure = panels([picture] * 3, ["a"])  # the narrowest that they get
    figure.draw_without_rendering()
    return figure.axes[0]


def inside(labels: list[Text], span: tuple[float, float], axis: int) -> list[Text]:
    low, high = span
    return [one for one in labels if one.get_text() and low <= one.get_position()[axis] <= high]


@pytest.mark.parametrize("medians", [[1.2, 1.21, 1.22], [5.1e-4, 6e-4, 8e-4], [1e-5, 1.0, 3.0]])
def test_losses_are_labelled_whatever_their_range(medians: list[float]) -> None:
    panel = drawn([1e-4, 1e-3, 3e-3], medians)
    labels = [*panel.yaxis.get_ticklabels(minor=False), *panel.yaxis.get_ticklabels(minor=True)]
    assert len(inside(labels, panel.get_ylim(), 1)) >= 2


@pytest.mark.parametrize("most", [2.2e-3, 8e-3, 0.09, 9.0])
def test_labels_of_many_values_do_not_touch(most: float) -> None:
    values = [1.1e-4 * (most / 1.1e-4) ** (at / 9) for at in range(10)]
    panel = drawn(values, [1.0 + value for value in values])
    labels = [*panel.xaxis.get_ticklabels(minor=False), *panel.xaxis.get_ticklabels(minor=True)]
    boxes = sorted((one.get_window_extent() for one in inside(labels, panel.get_xlim(), 0)), key=lambda box: box.x0)
    assert len(boxes) >= 2
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_drawn_values_have_three_digits_at_most() -> None:
    panel = drawn([1.10186e-05, 0.000442688, 0.00260066], [1.0, 2.0, 3.0])
    assert [one.get_text() for one in panel.get_xticklabels()] == ["1.1e-05", "0.000443", "0.0026"]
