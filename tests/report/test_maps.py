"""Maps: every model has a panel, every point a colour and a number, and what was not run is hatched."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posattn.report.figures import _x_axis
from posattn.report.maps import colour_map
from posattn.studies.core.points import Map, Picture, Point

SIZES, SCALES = (8.0, 64.0, 1024.0), (1.0, 10.0)
VALUES = {
    "good": {(n, c): 3e-7 * n for n in SIZES for c in SCALES},
    "short": {(8.0, 1.0): 0.25, (64.0, 1.0): 40.0},
    "exact": {(8.0, 1.0): 0.0},
}


def points() -> tuple[Point, ...]:
    return tuple(
        Point("sort", arm, "name", x, (value, value, 1e9 * value), (), (0, 1, 2), y=y)
        for arm, cells in VALUES.items()
        for (x, y), value in cells.items()
    )


@pytest.fixture(scope="module")
def panels() -> dict[str, Axes]:
    made = colour_map(Map(title="sort", points=points(), x_label="size", y_label="scale", measure="error"))
    return {panel.get_title(): panel for panel in made.axes if panel.get_title()}


def test_every_model_has_a_panel(panels: dict[str, Axes]) -> None:
    assert list(panels) == list(VALUES)


def test_colours_are_medians_within_the_range_of_the_bar(panels: dict[str, Axes]) -> None:
    for arm, cells in VALUES.items():
        (image,) = panels[arm].images
        shown: Any = np.ma.filled(np.ma.asarray(image.get_array()), math.nan)
        for row, y in enumerate(SCALES):
            for column, x in enumerate(SIZES):
                value = cells.get((x, y), math.nan)
                assert shown[row, column] == pytest.approx(min(max(value, 1e-8), 1.0), nan_ok=True)
        assert (image.norm.vmin, image.norm.vmax) == (1e-8, 1.0)


def test_cells_say_their_number_and_those_without_one_are_hatched(panels: dict[str, Axes]) -> None:
    assert [text.get_text() for text in panels["short"].texts] == ["0.2", "40"]
    assert [text.get_text() for text in panels["exact"].texts] == ["0"]
    assert panels["good"].texts[0].get_text() == "2e-6"
    assert [len(panels[arm].patches) for arm in VALUES] == [0, 4, 5]
    assert {patch.get_hatch() for patch in panels["short"].patches} == {"////"}


def test_labels_of_neighbouring_sizes_do_not_touch() -> None:
    ticks = (8.0, 64.0, 1024.0, 16_384.0, 65_536.0)
    figure = Figure(figsize=(4.2, 3.4), layout="constrained")
    panel = figure.subplots()
    panel.plot(ticks, ticks)
    _x_axis(Picture(title="", curves=(), x_label="size", log=True, log_x=True, ticks=ticks), panel)
    figure.draw_without_rendering()
    *_, last, most = panel.get_xticklabels()
    assert (last.get_text(), most.get_text()) == ("16,384", "65,536")
    apart = (panel.transData.transform((65_536, 1)) - panel.transData.transform((16_384, 1)))[0]
    height = float(most.get_fontsize()) * figure.dpi / 72
    assert apart * math.sin(math.radians(most.get_rotation())) > 1.2 * height  # lines of slanted text


def test_a_shift_of_0_has_a_place_on_an_axis_of_powers() -> None:
    ticks = (0.0, 1.0, 10.0, 100.0, 1000.0)
    panel = Figure().subplots()
    panel.plot(ticks, ticks)
    _x_axis(Picture(title="", curves=(), x_label="shift", log=True, log_x=True, ticks=ticks), panel)
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0", "1", "10", "100", "1,000"]
    places = [panel.transAxes.inverted().transform(panel.transData.transform((tick, 1.0)))[0] for tick in ticks]
    apart = [after - before for before, after in itertools.pairwise([0.0, *places, 1.0])]
    assert min(apart) > 0.03
    assert max(apart) < 0.3
