"""The picture of a program: a line for every word that moves."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from posattn.compile import Program, Round, library, reads, word
from posattn.compile.show.draw import draw


def lines(figure: Figure) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    """(x, x, y, y) of the nodes' lines, and of the words that move."""
    (panel,) = figure.axes
    found = []
    for line in panel.get_lines():
        found.append(tuple(np.concatenate(line.get_data()).tolist()))
    return [line for line in found if line[2] == line[3]], [line for line in found if line[2] != line[3]]


@pytest.mark.parametrize("name", library.PROGRAMS)
@pytest.mark.parametrize("length", [1, 4])
def test_every_word_that_moves_is_one_line(name, length):
    program = library.get(name, length)
    resting, moving = lines(draw(program))
    assert resting == [(0, len(program.rounds), node, node) for node in range(program.nodes)]
    expected = set()
    for number, round_ in enumerate(program.rounds):
        for table in round_.receive.values():
            expected |= {(number, number + 1, s[0], node) for node, s in enumerate(table) if s and s[0] != node}
    assert set(moving) == expected
    if name not in ("argsort", "cummedian", "fetch", "gather"):  # several patterns may share an edge there
        assert len(moving) == len(expected)


def test_slots_with_the_same_sources_are_drawn_once_and_node_0_is_a_source():
    one = Round(
        receive={"a": reads("x", [1, 0, None]), "b": reads("x", [1, 0, None]), "c": reads("x", [2, 1, 0])},
        update={"x": word("a") + word("b") + word("c")},
    )
    program = Program(name="three", length=3, nodes=3, registers=("x",), rounds=(one,))
    _, moving = lines(draw(program))
    assert sorted(moving) == [(0, 1, 0, 1), (0, 1, 0, 2), (0, 1, 1, 0), (0, 1, 2, 0)]
    (panel,) = draw(program).axes
    colours = {line.get_color() for line in panel.get_lines()[3:]}
    assert len(colours) == 2


def test_the_picture_names_what_it_shows_and_can_be_saved():
    figure = draw(library.get("sort", 4))
    (panel,) = figure.axes
    assert panel.get_title() == "sort: 4 nodes, 3 rounds"
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("round", "node")
    assert panel.yaxis_inverted()
    (dots,) = panel.collections
    assert len(dots.get_offsets()) == 4 * 4  # type: ignore[arg-type]
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    assert buffer.getvalue().startswith(b"<?xml")


def test_more_patterns_than_colours_are_all_drawn():
    shifts = {f"s{k}": reads("x", [(i + k) % 9 for i in range(9)]) for k in range(1, 9)}
    total = word("x")
    for slot in shifts:
        total = total + word(slot)
    program = Program(
        name="all", length=9, nodes=9, registers=("x",), rounds=(Round(receive=shifts, update={"x": total}),)
    )
    assert len(lines(draw(program))[1]) == 72
