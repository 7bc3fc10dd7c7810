"""Expressions from text, written as in Python: numbers, names, + - * /, parentheses, and functions (`vocabulary`).

Python's operators build the expression, so that a text means what it would mean in Python: between two numbers they
compute, and 3 + x is x + 3.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from posattn.compile.expressions import Expression, tree
from posattn.compile.expressions.known_functions import FUNCTIONS
from posattn.compile.text.tokens import Reader
from posattn.compile.text.vocabulary import LANGUAGE, Function
from posattn.errors import PosattnError

Value = Expression | float


def read_expression(reader: Reader, words: Iterable[str], lets: Mapping[str, Expression]) -> Expression:
    """The rest of a line. `words`: registers and slots; `lets`: parts that have a name."""
    found = _Reading(reader, frozenset(words), lets).sum()
    reader.end("an operator or the end of the line")
    return tree.as_expression(found)


class _Reading(NamedTuple):
    """Reads by descent: sums of products of signed values."""

    reader: Reader
    words: frozenset[str]
    lets: Mapping[str, Expression]

    def sum(self) -> Value:
        found = self.product()
        while sign := self.reader.take("+", "-"):
            found = self._joined(found, sign, self.product())
        return found

    def product(self) -> Value:
        found = self.signed()
        while sign := self.reader.take("*", "/"):
            found = self._joined(found, sign, self.signed())
        return found

    def signed(self) -> Value:
        return -self.signed() if self.reader.take("-") else self.single()

    def single(self) -> Value:
        reader = self.reader
        if reader.next.kind == "number":
            return reader.number("a number")
        if reader.take("("):
            found = self.sum()
            reader.expect(")")
            return found
        if reader.next.kind == "name" and reader.after_next.text == "(":
            return self._call()
        token = reader.next
        name = reader.name("a number, a name or '('")
        if name not in self.lets and name not in self.words:
            raise reader.wrong("a register or a slot", known=[*self.words, *self.lets], token=token)
        return self.lets.get(name, tree.Word(name))

    def _call(self) -> Expression:
        reader, token = self.reader, self.reader.next
        name = reader.name("a function")
        if name == "call":
            raise reader.error(f"a text knows no functions of your own, only {', '.join(FUNCTIONS)}.", token)
        if name not in LANGUAGE:
            raise reader.wrong("a function", known=LANGUAGE, token=token)
        function = LANGUAGE[name]
        reader.expect("(")
        given: list[Value] = []
        named: dict[str, Value] = {}
        while not reader.take(")"):
            if given or named:
                reader.expect(",", " or ')'")
            if reader.next.kind == "name" and reader.after_next.text == "=":
                named |= self._named(name, function, named)
            else:
                given.append(self.sum())
        wanted = function.arguments
        if (wanted is None and not given) or (wanted is not None and len(given) != wanted):
            raise reader.error(f"{name} takes {wanted or 'one or more'} by place, and here are {len(given)}.", token)
        for key in function.needed:
            if key not in named:
                raise reader.error(f"{name} needs {key}=…, as {_example(name, function)}.", token)
        try:
            return function.build(*given, **named)
        except PosattnError as error:
            raise reader.error(str(error), token) from None

    def _named(self, name: str, function: Function, before: Mapping[str, Value]) -> dict[str, Value]:
        reader, token = self.reader, self.reader.next
        key = reader.name("a name")
        reader.expect("=")
        known = (*function.named, *function.numbers)
        if key not in known or key in before:
            listed = f"one of {', '.join(known)}, once, in {name}(…)" if known else f"no named argument in {name}(…)"
            raise reader.wrong(listed, known=known, token=token)
        if key in function.numbers:
            return {key: reader.number("a number")}
        return {key: self.sum()}

    def _joined(self, one: Value, sign: str, other: Value) -> Value:
        token = self.reader.tokens[self.reader.at - 1]
        try:
            match sign:
                case "+":
                    return one + other
                case "-":
                    return one - other
                case "*":
                    return one * other
            return _quotient(one, other)
        except (PosattnError, ArithmeticError) as error:
            raise self.reader.error(str(error), token) from None


def _quotient(one: Any, other: Any) -> Value:
    return one / other


def _example(name: str, function: Function) -> str:
    return f"{name}({', '.join('xyz'[: function.arguments])}, {', '.join(f'{key}=b' for key in function.needed)})"
