"""Mixed-type samples as text, and the numbers in what a language model answers.

CatA 003.21, Cat+A, CatD 001.20, … Find min of categories CatD, CatK, CatA and CatP. Answer: 001.20
"""

import re
from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor

from posattn.errors import PosattnError
from posattn.tasks.mixed import GLYPHS, LIST_CHARACTERS, MixedInputs

ENTRY = re.compile(r"Cat([-+*_]?)(\w)")
NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
READ_CHARACTERS = 6


def prompts(inputs: MixedInputs) -> list[str]:
    """Each sample as a sentence to be continued: a label's number follows it, a distractor has none."""
    numbers, count = _written(inputs.numbers.flatten()), inputs.numbers.shape[1]
    return [
        _prompt(codes, iter(numbers[row * count : (row + 1) * count]))
        for row, codes in enumerate(inputs.characters.tolist())
    ]


def answers(target: Float[Tensor, "batch 1"]) -> list[str]:
    """What continues each prompt.

    >>> import torch
    >>> answers(torch.tensor([[3.21], [200.0]]))
    [' 003.21', ' 200.00']
    """
    return [f" {number}" for number in _written(target.flatten())]


def parse(text: str) -> float | None:
    """The number in the first 6 characters of an answer, or None where they are anything else.

    >>> parse(" 003.21, CatB"), parse("about 3")
    (3.21, None)
    """
    read = text.lstrip()[:READ_CHARACTERS]
    return float(read) if NUMBER.fullmatch(read) else None


def _prompt(codes: list[int], numbers: Iterator[str]) -> str:
    text = "".join(GLYPHS[code] for code in codes)
    listed = [
        f"Cat{mark}{label}" if mark else f"Cat{label} {next(numbers)}"
        for mark, label in ENTRY.findall(text[:LIST_CHARACTERS])
    ]
    return f"{', '.join(listed)}. {text[LIST_CHARACTERS:]}. Answer:"


def _written(numbers: Float[Tensor, " count"]) -> list[str]:
    for number in numbers[~((numbers >= 0) & (numbers < 999.995))].tolist():  # NaN among them
        raise PosattnError(
            f"{number:g}: numbers are written with 6 characters, so they and their sums must lie in 0 … 999.99. "
            "Draw the samples from a smaller range."
        )
    return [f"{number:06.2f}" for number in numbers.tolist()]
