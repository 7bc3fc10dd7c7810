"""k-hop induction by position: a hop is a scan in which the rightmost wins, ⌈log_(h + 1) n⌉ rounds with h heads.

A hop leads from a node to the one after the last earlier occurrence of its letter. So every node p has an entry for
the letter to its left: what the hops so far find from p, as `code`, the token plus 1. A table has a word for every
letter: its last entry among some neighbouring nodes, or 0. Two neighbouring tables r and l, l to the left, make the
table of all their nodes: r + relu(l − most·r) is r, or l where r is 0. With h heads, h + 1 tables become one in a
round, until every node has the table of all nodes up to itself. The entry of its own letter is what one more hop finds.

Node 0 has the entry “missing” for every letter, and nodes that would read beyond it read it: what is found nowhere else
is found there. All words are whole and at most `most`, so nothing is rounded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from posattn.checks import instance, whole
from posattn.compile.arguments import Source
from posattn.compile.expressions import Expression, Sum, distance, minimum, relu, word
from posattn.compile.program import Program
from posattn.compile.programs.size_limits import MOST_ENTRIES
from posattn.compile.rounds import Round, reads
from posattn.errors import require
from posattn.tasks.khop import KHopTask

x, code, text = word("x"), word("code"), word("text")


def khop(task: KHopTask, *, heads: int = 3) -> Program:
    """The task's tokens to its answers, in 1 + max_hops·⌈log_(heads + 1) nodes⌉ rounds; a hop takes at least two.

    Tokens are whole numbers. At node 0, those below the token of 0 hops count as that, and those above the last one as
    the last. At other nodes, those that are not letters count as missing.

    >>> from posattn import tasks
    >>> [len(khop(tasks.get("khop"), heads=heads).rounds) for heads in (2, 3, 4, 9)]
    [16, 13, 10, 7]
    """
    instance("task", task, KHopTask, fix="pass a k-hop task, as posattn.tasks.get('khop')")
    require(task.first_hop_token >= 1, f"task '{task.name}' has no letters: it needs one.")
    require(
        2 <= whole("heads", heads) <= max(2, task.nodes - 1),
        f"heads={heads}: in the first round nodes read their neighbour and node 0, and more heads than other nodes are "
        f"of no use. Use 2 … {max(2, task.nodes - 1)}.",
    )
    shifts = [1, heads + 1]  # of the rounds of a hop, which read up to `heads` times as far
    while shifts[-1] * (heads + 1) < task.nodes:
        shifts.append(shifts[-1] * (heads + 1))
    words = task.max_hops * len(shifts) * heads * (task.first_hop_token + 1)
    require(
        task.nodes * words <= MOST_ENTRIES,
        f"task '{task.name}': {task.nodes:,} nodes receive {words:,} words each, and tables are written out up to "
        f"{MOST_ENTRIES:,} for their product. Choose fewer characters, hops or letters.",
    )
    made = _Rounds(task, heads)
    rounds = [made.setup()]
    for hop in range(1, task.max_hops + 1):
        rounds += [made.enter(hop), *map(made.join, shifts[1:-1]), made.look_up(shifts[-1])]
    kinds = ("own", "shut", "table")
    return Program(
        name=task.name,
        length=task.nodes,
        nodes=task.nodes,
        registers=("x", "code", "count", "text", *(f"{kind} {c}" for kind in kinds for c in made.letters)),
        rounds=tuple(rounds),
        constants={"text": (0.0, *[1.0] * task.characters)},
        pad=0.0,
        grid=1.0,
        oracle=lambda tokens: _followed(task, tokens),
    )


@dataclass(frozen=True)
class _Rounds:
    """The rounds of a task's program. Words that head h reads have “@h” in their names."""

    task: KHopTask
    heads: int

    @property
    def letters(self) -> range:
        return range(self.task.first_hop_token)

    @property
    def most(self) -> float:
        """The largest code, “missing”; it is the token `blank` too, the answer at node 0."""
        return float(self.task.missing + 1)

    def setup(self) -> Round:
        """own c: a bit, whether the node holds letter c. shut c: whether its entry is not for c; at node 0 all are."""
        own = [relu(text - distance(x, c)) for c in self.letters]
        left = [relu(word("text@1") - distance(word("x@1"), c)) for c in self.letters]
        first = self.most - Sum(tuple((self.most - 1 - c) * bit for c, bit in enumerate(own)))
        return Round(
            receive={
                "x@1": self._left("x", 1),
                "text@1": self._left("text", 1),
                "first": reads("x", [0] * self.task.nodes),
            },
            update={
                **{f"own {c}": bit for c, bit in enumerate(own)},
                **{f"shut {c}": text - bit for c, bit in enumerate(left)},
                "count": word("first"),
                "code": first,
                "x": first - text,
            },
            note="own letters, and those to the left",
        )

    def enter(self, hop: int) -> Round:
        """Tables of the nearest entries. Where there are fewer hops, no letter is looked up from now on."""
        too_many = relu(self.task.first_hop_token + hop - word("count"))

        def entry(c: int, at: str) -> Expression:
            return relu(word(f"code{at}") - self.most * word(f"shut {c}{at}"))

        return Round(
            receive=self._read(["code", *(f"shut {c}" for c in self.letters)], 1),
            update={
                **{f"table {c}": self._rightmost(lambda at, c=c: entry(c, at)) for c in self.letters},
                **{f"own {c}": relu(word(f"own {c}") - too_many) for c in self.letters},
            },
            note=f"hop {hop}: tables of {self.heads + 1} nodes",
        )

    def join(self, shift: int) -> Round:
        """Tables of as many nodes as all that are read know of."""
        tables = [f"table {c}" for c in self.letters]
        return Round(
            receive=self._read(tables, shift),
            update={name: self._rightmost(lambda at, name=name: word(name + at)) for name in tables},
            note=f"tables of {(self.heads + 1) * shift} nodes",
        )

    def look_up(self, shift: int) -> Round:
        """The last entry of the own letter in all tables; where none is to be looked up, the code stays as it is."""
        own = [word(f"own {c}") for c in self.letters]

        def found(at: str) -> Expression:
            return Sum(tuple(minimum(self.most * bit, word(f"table {c}{at}")) for c, bit in enumerate(own)))

        answer = self._rightmost(found) + relu(code - self.most * Sum(tuple(own)))
        return Round(
            receive=self._read([f"table {c}" for c in self.letters], shift),
            update={"code": answer, "x": answer - text},
            note="look up the own letter",
        )

    def _rightmost(self, table: Callable[[str], Expression]) -> Expression:
        """The first word that is not 0: the own one, or that of a head. One that is at least 1 shuts all after it."""
        words = [table(at) for at in ("", *(f"@{head}" for head in range(1, self.heads + 1)))]
        later = (relu(one - self.most * Sum(tuple(words[:k]))) for k, one in enumerate(words) if k)
        # it is never more than `most`: this only says so, and a compiler that knows it finds that nothing rounds
        return minimum(Sum((words[0], *later)), self.most)

    def _read(self, registers: Sequence[str], shift: int) -> dict[str, tuple[Source, ...]]:
        """Registers of the nodes at one, two, … shifts to the left."""
        heads = range(1, self.heads + 1)
        return {f"{name}@{head}": self._left(name, head * shift) for head in heads for name in registers}

    def _left(self, register: str, shift: int) -> tuple[Source, ...]:
        """A table by which nodes read so far to the left; those without such a node read node 0."""
        return reads(register, [max(node - shift, 0) for node in range(self.task.nodes)])


def _followed(task: KHopTask, tokens: np.ndarray) -> np.ndarray:
    """One node and one hop at a time."""
    answers = np.full(tokens.shape, float(task.blank))
    for row, answer in zip(tokens.astype(int).tolist(), answers, strict=True):
        hops = min(max(row[0] - task.first_hop_token, 0), task.max_hops)
        held = [None, *(token if 0 <= token < task.first_hop_token else None for token in row[1:])]
        leads: list[int | None] = []
        for node, letter in enumerate(held):
            before = [p for p in range(node) if held[p] == letter]
            leads.append(before[-1] + 1 if before and letter is not None else None)
        for node in range(1, len(row)):
            found: int | None = node
            for _ in range(hops):
                found = None if found is None else leads[found]
            letter = None if found is None else held[found]
            answer[node] = task.missing if letter is None else letter
    return answers
