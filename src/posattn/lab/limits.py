"""What the lab takes from its users, and no more: every reader here gives a value or says what to change."""

import math
import os
import re
from typing import Any

from posattn.errors import PosattnError, require

MOST_NUMBERS = 64
MOST_SCALE = 1000
MOST_LENGTH = 4096
#: Bytes of a program's text, and parentheses within each other.
MOST_TEXT = 64 * 1024
MOST_DEPTH = 32
#: Bytes of an uploaded file.
MOST_UPLOAD = 8 * 1024 * 1024


def typed_words(text: Any) -> list[str]:
    """What was typed as numbers, one by one: 3 1 2 or 3, 1, 2, or 7:0 8:2 for a program with two inputs."""
    words = re.split(r"[\s,;]+", _text("the numbers", text).strip())
    words = [word for word in words if word]
    require(bool(words), "there are no numbers: type some, as 3 1 2.")
    require(
        len(words) <= MOST_NUMBERS, f"{len(words)} numbers were typed: the lab takes at most {MOST_NUMBERS} of them."
    )
    for word in words:
        require(len(word) <= 64, f"'{word[:20]}…' has {len(word)} characters: a number has at most 64.")
    return words


def program_text(text: Any) -> str:
    """The text of a program: not too long, and not nested too deeply."""
    found = _text("the program", text)
    size = len(found.encode(errors="replace"))
    require(bool(found.strip()), "there is no program: write one, or start from one of the library.")
    require(size <= MOST_TEXT, f"the program has {size:,} bytes: the lab takes at most {MOST_TEXT:,}.")
    depth = deepest = 0
    for letter in found:
        depth += (letter in "([{") - (letter in ")]}")
        deepest = max(deepest, depth)
    require(
        deepest <= MOST_DEPTH,
        f"parentheses are {deepest} deep: the lab takes at most {MOST_DEPTH}. Name parts of it: let part = …",
    )
    return found


def whole(name: str, value: Any, *, least: int, most: int) -> int:
    """A whole number from a slider or a field."""
    found = real(name, value, least=least, most=most)
    require(found.is_integer(), f"{name}: {value} is not a whole number.")
    return int(found)


def real(name: str, value: Any, *, least: float, most: float) -> float:
    """A number from a slider or a field."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise PosattnError(f"{name}: {_shown(value)} is not a number. Give one from {least:,g} to {most:,g}.") from None
    require(
        math.isfinite(found) and least <= found <= most,
        f"{name}: {found:g} is out of range. Give a number from {least:,g} to {most:,g}.",
    )
    return found


def uploaded_path(folder: str, given: Any) -> str:
    """The path of what Gradio says was uploaded: a file below the folder, and not too large."""
    path = given.get("path") if isinstance(given, dict) else None
    require(isinstance(path, str) and bool(path), "there is no file: upload one, as posattn compile writes it.")
    found = os.path.realpath(str(path).replace("\0", ""))
    inside = found.startswith(os.path.join(os.path.realpath(folder), "")) and os.path.isfile(found)
    require(inside, f"'{os.path.basename(found)[:60]}' was not uploaded here: the lab reads no other files.")
    size = os.path.getsize(found)
    require(
        size <= MOST_UPLOAD, f"the file has {size:,} bytes: the lab takes at most {MOST_UPLOAD:,}. Use the commands."
    )
    return found


def _text(name: str, text: Any) -> str:
    require(isinstance(text, str), f"{name}: {_shown(text)} is not text. Type it in.")
    return text


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value!r:.40}"
