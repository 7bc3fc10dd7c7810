"""Explanations in plain words: of real mistakes, as the lab would show them."""

import re

import pytest

from posattn.errors import PosattnError
from posattn.lab.plain import plain
from posattn.lab.tabs import FUNCTIONS

SQUARE = "program a\nlength 2\nround\n  x = x * x"
LARGE = "program a\nlength 2\n" + "round\n  x = x * 1e20\n" * 2


@pytest.mark.parametrize(
    ("name", "inputs", "said"),
    [
        ("select", (5, 1, 9, 99.0, 999), "η = 99: descent diverges"),
        ("compile", (SQUARE, 10), "Make one of them a constant at every node."),
        ("compile", (LARGE, 10), "beyond float32. Use a smaller domain."),
        ("execute", ("program: fetch", "1:0 2:0"), "'from' is 0, 0: it must hold every number"),
        ("execute", ("program: gather", "1:1 2:0.5"), "node 1 was given 0.5, which is not a multiple of 1"),
        ("generalise", ("min", None, 1), "scale: nothing is not a number. Give one from 1 to 1,000."),
        ("execute", ("trained: min, standard", " ".join("123456789")), "takes at most 8"),
    ],
)
def test_an_explanation_names_no_argument_of_python(name: str, inputs: tuple[object, ...], said: str) -> None:
    with pytest.raises(PosattnError) as error:
        FUNCTIONS[name](*inputs, note=lambda text: None)
    found = plain(str(error.value))
    assert said in found
    assert not re.search(r"torch|dtype|fit=|\w=[\d']|sample 0|PosattnError", found)
