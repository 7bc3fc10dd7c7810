"""Traces: what a terminal and a page show is what the interpreter does."""

import itertools
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from posattn.compile import Program, Round, library, reads, run, word
from posattn.compile.interpreter import trace as snapshots
from posattn.compile.show import trace

FIVE = np.array([[3.0], [1], [2], [5], [4]])


def test_the_text_shows_reads_and_registers_before_and_after():
    text = trace.text(library.get("sort", 5), FIVE).splitlines()
    assert text[:7] == [
        "sort on 5 numbers, 6 rounds",
        "           x  3 1 2 5 4",
        "round 1: compare-exchange with place xor 1",
        "  reads from  1 0 3 2 4",
        "       other  1 3 5 2 4",
        "           x  3 1 2 5 4  →  1 3 2 5 4",
        "round 2: compare-exchange with place xor 3",
    ]
    assert text[-1] == "      output  1 2 3 4 5"
    assert sum(line.startswith("round ") for line in text) == 6
    befores = [re.search(r"x  (.*)  →  (.*)", line) for line in text if "→" in line]
    states = [found.groups() for found in befores if found]
    assert all(one[1] == other[0] for one, other in itertools.pairwise(states))


def test_nothing_and_long_numbers_are_shown_as_they_are():
    text = trace.text(library.get("cumsum", 3), np.array([[1_000_000.0], [1.0], [0.25]]))
    assert "  reads from  – 0 1" in text.splitlines()
    assert text.splitlines()[-1] == "      output  1000000 1000001 1000001.25"


def test_slots_that_read_from_the_same_nodes_say_so_once():
    text = trace.text(library.get("max-subarray", 2), np.array([[1.0], [2.0]]))
    assert text.count("reads from") == 1
    assert text.count(" left  ") == 4
    assert "alone1" not in text  # constants do not move


def test_a_long_text_is_cut_and_a_page_is_not():
    x = np.arange(40.0)[:, None]
    program = library.get("cummax", 40)
    rows = [line for line in trace.text(program, x).splitlines() if "…" in line]
    assert all(line.split("  ")[-1].split()[31:] == ["31", "…"] for line in rows if "output" in line)
    assert rows
    assert len(data_of(trace.page(program, x))["frames"][0]["registers"]["x"]) == 40


def test_a_program_without_rounds_shows_its_input():
    assert trace.text(library.get("sort", 1), np.array([[7.0]])).splitlines()[-1] == "      output  7"
    assert len(data_of(trace.page(library.get("sort", 1), np.array([[7.0]])))["frames"]) == 1


def test_two_inputs_are_both_shown():
    text = trace.text(library.get("fetch", 2), np.array([[7.0, 1], [8, 0]]))
    assert text.splitlines()[1:3] == ["           x  7 8 0 0 0 0", "        from  1 0 0 0 0 0"]
    assert text.splitlines()[-1] == "      output  8 7"


# ---- the page


class Page(HTMLParser):
    """The tags and texts of a page; a tag that is closed and was not open fails."""

    VOID = ("meta", "input")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: dict[str, str] = {}
        self.links: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [(name, value) for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r"^const data = (.*);$", Page(page).texts["script"], re.MULTILINE)
    assert found is not None

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(found[1], parse_constant=refuse)


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_the_page_holds_what_the_interpreter_gives(name):
    program = library.get(name, 4)
    x = np.array([[3.0, 1], [-1, 3], [2, 0], [8, 2]])[:, : len(program.inputs)]
    data = data_of(trace.page(program, x))
    states = list(snapshots(program, x[None]))
    assert len(data["frames"]) == len(program.rounds) + 1
    assert data["nodes"] == program.nodes
    assert data["shown"] == program.outputs[0]
    for frame, state in zip(data["frames"], states, strict=True):
        assert list(frame["registers"]) == data["names"]
        for register, values in frame["registers"].items():
            np.testing.assert_allclose(values, state.registers[register][0], rtol=1e-5)
        expected = []
        for head, (slot, table) in enumerate((state.round.receive if state.round else {}).items()):
            for node, source in enumerate(table):
                if source is not None:
                    expected.append([source[0], node, state.received[slot][0, node], 1, head])
        assert frame["reads"] == expected
        assert [head.partition(" ← ")[0] for head in frame["heads"]] == list(state.round.receive if state.round else {})
        assert [update["register"] for update in frame["updates"]] == list(state.round.update if state.round else {})
        assert frame["note"] == (state.round.note if state.round else "the input")
    last = np.array([data["frames"][-1]["registers"][register][:4] for register in program.outputs]).T
    np.testing.assert_allclose(last, run(program, x[None])[0])
    assert {register for register in program.registers if register not in program.constants} <= set(data["names"])


def test_the_page_needs_nothing_from_elsewhere():
    page = trace.page(library.get("sort", 5), FIVE)
    assert Page(page).links == []
    without = page.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    for outside in ("http", "//cdn", "url(", "@import", "import(", "fetch(", "XMLHttp"):
        assert outside not in without
    assert "{{" not in page
    assert "{%" not in page
    assert Page(page).texts["title"] == "sort on 5 numbers · posattn"


NASTY = ["a</script><b>&", "<!--<script>", "{{ data }}", "{% raw %}", "\\u003c", "'\"`${1}", "a & b < c", "\u2028"]


@pytest.mark.parametrize("name", NASTY)
def test_names_are_only_ever_text(name):
    program = Program(
        name=name,
        length=2,
        nodes=2,
        registers=(name,),
        inputs=(name,),
        outputs=(name,),
        rounds=(Round(receive={"o": reads(name, [1, 0])}, update={name: word("o")}, note=name),),
    )
    page = trace.page(program, np.array([[1.0], [2.0]]))
    parsed = Page(page)
    assert parsed.texts["h1"] == f"{name} on 2 numbers"
    data = data_of(page)
    assert data["names"] == [name]
    frame = data["frames"][1]
    assert (frame["note"], frame["registers"]) == (name, {name: [2.0, 1.0]})
    assert frame["reads"] == [[1, 0, 2.0, 1.0, 0], [0, 1, 1.0, 1.0, 0]]
    assert frame["heads"] == [f"o ← {name}"]
    script = page[page.index("<script>") + 8 : page.rindex("</script>")]
    assert "<!--" not in script
    assert "<script" not in script
    assert name in trace.text(program, np.array([[1.0], [2.0]]))


def test_a_page_says_where_an_input_was_filled_up():
    program = library.get("sort", 5)
    page = trace.page(program, np.array([[3.0], [1], [1000], [1000], [1000]]), given=2)
    said = "2 of 5 numbers were given; nodes 2 to 4 were filled up with 1000, which changes no answer of theirs"
    assert said in Page(page).texts["p"]
    assert [data_of(page)[name] for name in ("given", "length")] == [2, 5]
    last = trace.page(program, np.array([[3.0], [1], [2], [4], [1000]]), given=4)
    assert "node 4 was filled up with 1000" in Page(last).texts["p"]


def test_a_page_of_a_whole_input_says_nothing_of_filling_up():
    page = trace.page(library.get("sort", 5), FIVE)
    assert "filled up" not in Page(page).texts.get("p", "")
    assert data_of(page)["given"] == 5


def test_behind_a_node_stand_the_words_that_its_formula_takes():
    program = library.get("sort", 5)
    data = data_of(trace.page(program, FIVE))
    for frame, before in zip(data["frames"][1:], data["frames"], strict=False):
        (update,) = frame["updates"]
        words = update["words"]
        assert words["x"] == before["registers"]["x"]
        upper = next(values for name, values in words.items() if name.startswith("upper"))
        for node in range(5):
            pair = (words["x"][node], words["other"][node])
            taken = max(pair) if upper[node] else min(pair)
            assert frame["registers"]["x"][node] == taken
