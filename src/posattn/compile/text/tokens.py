"""Lines of a program's text as tokens, and a reader that says what it found where it expected something else."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from posattn.errors import PosattnError

TOKEN = re.compile(
    r"""(?P<space>\s+|\#.*)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<name>[^\W\d]\w*'*)
      | (?P<symbol><-|\.\.|[-.+*/(),=@])
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
#: What a line before the first round can be about.
HEADER = (
    "program", "length", "nodes", "registers", "inputs", "outputs", "output_length", "permutations", "pad", "grid",
    "constant", "recipe", "specification",
)  # fmt: skip
#: Words of the language: a register of this name is written in quotes.
RESERVED = frozenset((*HEADER, "round", "let", "of", "i", "xor"))


class Token(NamedTuple):
    kind: str  # name, string, number, symbol, other (which is wrong everywhere), or end
    text: str
    column: int


@dataclass
class Reader:
    """One line, read from left to right."""

    line: int
    text: str
    tokens: list[Token]
    at: int = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    @property
    def after_next(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def starts_with(self, *texts: str) -> bool:
        """Whether one of these words and symbols comes next; a quoted name is neither."""
        return self.next.kind in ("symbol", "name") and self.next.text in texts

    def take(self, *texts: str) -> str | None:
        """The next word or symbol, if it is one of these."""
        if not self.starts_with(*texts):
            return None
        self.at += 1
        return self.tokens[self.at - 1].text

    def expect(self, text: str, why: str = "") -> None:
        if self.take(text) is None:
            raise self.wrong(f"'{text}'{why}")

    def name(self, what: str) -> str:
        """A name, quoted or not."""
        token = self.next
        if token.kind not in ("name", "string"):
            raise self.wrong(what)
        self.at += 1
        return self._unquoted(token) if token.kind == "string" else token.text

    def names(self, what: str) -> tuple[str, ...]:
        found = [self.name(what)]
        while self.take(","):
            found.append(self.name(what))
        return tuple(found)

    def number(self, what: str) -> float:
        """A number, which may have a minus."""
        sign = -1.0 if self.take("-") else 1.0
        if self.next.kind != "number":
            raise self.wrong(what)
        self.at += 1
        return sign * float(self.tokens[self.at - 1].text)

    def whole(self, what: str) -> int:
        token = self.next
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 18:
            raise self.wrong(what)
        self.at += 1
        return int(token.text)

    @property
    def rest(self) -> str:
        """What is left of the line, as it is written."""
        return self.text[self.next.column - 1 : self.tokens[-1].column - 1]

    def title(self, what: str) -> str:
        """The rest of the line, or a name in quotes."""
        if self.next.kind in ("string", "end"):
            return self.name(what)
        found, self.at = self.rest, len(self.tokens) - 1
        return found

    def end(self, expected: str = "the end of the line") -> None:
        if self.next.kind != "end":
            raise self.wrong(expected)

    def wrong(self, expected: str, *, known: Iterable[str] = (), token: Token | None = None) -> PosattnError:
        """What was found, what was expected, and the nearest name that is known."""
        token = token or self.next
        near = difflib.get_close_matches(token.text.strip('"'), list(known), n=1, cutoff=0.5)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        found = "the end of the line" if token.kind == "end" else f"'{token.text}'"
        found = "a quote that is not closed" if (token.kind, token.text) == ("other", '"') else found
        return self.error(f"found {found}, expected {expected}{hint}", token)

    def error(self, message: str, token: Token | None = None) -> PosattnError:
        return PosattnError(f"line {self.line}, column {(token or self.next).column}: {message}")

    def _unquoted(self, token: Token) -> str:
        try:
            return json.loads(token.text, strict=False)
        except ValueError as error:
            raise self.error(f"{token.text} is not a text in quotes ({error}).", token) from None


def lines(text: str) -> Iterator[Reader]:
    """A reader for each line that says something."""
    for number, line in enumerate(text.split("\n"), 1):
        if (reader := _reader(number, line)).next.kind != "end":
            yield reader


def _reader(number: int, line: str) -> Reader:
    tokens = [Token(str(found.lastgroup), found.group(), found.start() + 1) for found in TOKEN.finditer(line)]
    said = [token for token in tokens if token.kind != "space"]
    end = said[-1].column + len(said[-1].text) if said else 1
    return Reader(number, line, [*said, Token("end", "", end)])


def quoted(text: str) -> str:
    """A text in quotes; letters that cannot be seen are escaped."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def shown_name(name: str) -> str:
    """A name as it is written: as it is, or in quotes."""
    found = TOKEN.fullmatch(name)
    plain = found is not None and found.lastgroup == "name" and name not in RESERVED
    return name if plain else quoted(name)


def shown_title(title: str) -> str:
    """A program's name, which may have spaces and dashes, up to the end of its line."""
    plain = title.isprintable() and title == title.strip() and not {*'#"'} & {*title}
    return title if plain else quoted(title)


def shown_number(value: float) -> str:
    """As few digits as give the number back."""
    return repr(float(value)).removesuffix(".0")
