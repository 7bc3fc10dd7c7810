"""Copies along a sorted order: nodes without a word of their own take that of an earlier node.

After a sort, records are known by rank. Some have the flag 1, and the others the flag 0 and the word 0. Of a stretch of
ranks, a node knows whether any flag is 1, and the word of the last record with the flag 1. It keeps its word where it
has one, and takes that of an earlier stretch elsewhere: then it knows the same of both stretches together. z3 shows for
every kind of update that it does so.
"""

import itertools
from typing import Any, NamedTuple

from posattn.compile.expressions import Expression
from posattn.compile.proof.specification.solver import Solver
from posattn.compile.proof.specification.terms import UNIT, ZERO, AnyFlag, Form, LastFlagged, Payload, whole


class Stretch(NamedTuple):
    """Ranks, the last one first: of two stretches, the smaller one is the earlier."""

    last: int
    first: int


class Copies:
    """Decides once for every kind of update, by z3."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.known: dict[Any, str | None] = {}
        self.merged: dict[Any, frozenset[tuple[Form, Form, Form]] | None] = {}

    def value(self, expression: Expression, words: dict[str, Form]) -> Form | None:
        """What an update is of the stretches whose flags and words it reads; None where it is neither."""
        flags = {name: flag for name, form in words.items() if (flag := _flag(form)) is not None}
        if len({flag.records for flag in flags.values()}) != 1:
            return None
        flagged = next(iter(flags.values())).records
        carried: dict[str, LastFlagged] = {}
        for name, form in words.items():
            if name in flags or form == ZERO:
                continue
            word = self._word(form, flagged)
            if word is None:
                return None
            carried[name] = word
        stretches = sorted({Stretch(held.last, held.first) for held in (*flags.values(), *carried.values())})
        if not _adjoin(stretches):
            return None
        shape = tuple(
            (name, name in flags, stretches.index(Stretch(held.last, held.first)))
            for name, held in sorted({**flags, **carried}.items())
        )
        kind = (expression, shape, len(stretches))
        if kind not in self.known:
            self.known[kind] = self._decided(expression, words, shape, len(stretches))
        first, last = stretches[0].first, stretches[-1].last
        if self.known[kind] == "flag":
            return whole(AnyFlag(flagged, first, last))
        records = {word.records for word in carried.values()}
        if self.known[kind] == "word" and len(records) == 1:
            return whole(LastFlagged(records.pop(), first, last))
        return None

    def _word(self, form: Form, flagged: frozenset[tuple[Form, Form]]) -> LastFlagged | None:
        """What a form is of a stretch of the flagged records, if it is their word."""
        atom = form.atom()
        if isinstance(atom, LastFlagged):
            return atom if frozenset((key, flag) for key, flag, _ in atom.records) == flagged else None
        if not isinstance(atom, Payload):
            return None
        kind = (atom.records, flagged)
        if kind not in self.merged:
            self.merged[kind] = _with_flags(*kind)
        records = self.merged[kind]
        return None if records is None else LastFlagged(records, atom.rank, atom.rank)

    def _decided(
        self, expression: Expression, words: dict[str, Form], shape: tuple[tuple[str, bool, int], ...], count: int
    ) -> str | None:
        """Whether an update is the flag of all stretches together, or their word."""
        solver, z3 = self.solver, self.solver.z3
        flags = [solver.real(f"flag{place}") for place in range(count)]
        carried = [solver.real(f"word{place}") for place in range(count)]
        held: dict[str, Any] = dict.fromkeys(words, solver.number(0))
        held |= {name: (flags if is_flag else carried)[place] for name, is_flag, place in shape}
        facts = [z3.Or(flag == 0, flag == 1) for flag in flags]
        facts += [z3.Implies(flag == 0, word == 0) for flag, word in zip(flags, carried, strict=True)]
        value = solver.formula(expression, held)
        any_flag, last_word = flags[0], carried[0]
        for flag, word in zip(flags[1:], carried[1:], strict=True):
            any_flag, last_word = z3.If(flag == 1, flag, any_flag), z3.If(flag == 1, word, last_word)
        if solver.always(value == any_flag, facts):
            return "flag"
        return "word" if solver.always(value == last_word, facts) else None


def _flag(form: Form) -> AnyFlag | None:
    """The flag that a form is: of some ranks, or what the record of a rank carries."""
    atom = form.atom()
    if isinstance(atom, Payload) and all(held in (ZERO, UNIT) for _, held in atom.records):
        return AnyFlag(atom.records, atom.rank, atom.rank)
    return atom if isinstance(atom, AnyFlag) else None


def _with_flags(
    records: frozenset[tuple[Form, Form]], flagged: frozenset[tuple[Form, Form]]
) -> frozenset[tuple[Form, Form, Form]] | None:
    """Records with both what they carry and their flags, where those with the flag 0 carry 0."""
    words, flags = dict(records), dict(flagged)
    if words.keys() != flags.keys() or any(words[key] != ZERO for key, flag in flags.items() if flag == ZERO):
        return None
    return frozenset((key, flag, words[key]) for key, flag in flags.items())


def _adjoin(stretches: list[Stretch]) -> bool:
    """Whether every stretch begins within the one before it, or right after it, and not before that begins."""
    return bool(stretches) and all(
        before.first <= after.first <= before.last + 1 for before, after in itertools.pairwise(stretches)
    )
