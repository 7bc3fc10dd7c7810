"""Text and numbers by position: the values that a question asks for, in three rounds.

A label carries a value where its character follows a “t”; a distractor's follows its mark. Its place depends on how
many distractors stand before it, up to two: so the node of a number reads three characters, one of which is its label,
and compares it to the labels of the question: equal codes are 0 apart, whatever they are, so labels that
were never seen are as good as any. Numbers that are not asked for become 0. The first node then reads all numbers, each
with a bit that says whether it was asked for: of two, a + b − max(a, b) is the smaller, and of one and a 0, a + b is
the one.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from posattn.checks import instance
from posattn.compile.arguments import Source
from posattn.compile.expressions import Expression, Sum, distance, gate, maximum, minimum, relu, word
from posattn.compile.program import Program
from posattn.compile.rounds import Round, reads
from posattn.tasks import mixed as prompt
from posattn.tasks.mixed import MixedInputs, MixedTask

NODES = prompt.CHARACTERS + prompt.LABELS
x, code = word("x"), word("code")
#: The second letter tells them apart.
LETTER = {name: prompt.CODE[name[1]] for name in prompt.OPERATIONS}

Asked = tuple[Expression, Expression]  # a number, and the bit that says whether it counts


def mixed(task: MixedTask) -> Program:
    """A task's prompts to their answers, at the first node. `laid_out` gives samples the form that it takes.

    >>> from posattn import tasks
    >>> len(mixed(tasks.get("mixed-multitask")).rounds)
    3
    """
    instance("task", task, MixedTask, fix="pass a mixed-type task, as posattn.tasks.get('mixed-min')")
    return Program(
        name=task.name,
        length=NODES,
        nodes=NODES,
        registers=("code", "x", "label", "asked", "operation"),
        rounds=(_find_labels(), _compare(), _answer(task)),
        inputs=("code", "x"),
        output_length=1,
        grid={"code": 1.0},
    )


def laid_out(inputs: MixedInputs) -> Tensor:
    """Samples as a program takes them, (batch, nodes, 2): `code`, 0 at numbers, and `x`, 0 at characters."""
    characters, numbers = inputs
    codes = torch.nn.functional.pad(characters.to(numbers.dtype), (0, prompt.LABELS))
    return torch.stack([codes, torch.nn.functional.pad(numbers, (prompt.CHARACTERS, 0))], dim=2)


def _find_labels() -> Round:
    """label: 1 + the code of a label that carries a value, and 0 at all other characters."""
    is_label = relu(1 - relu(code - (prompt.IDS - 1)))
    follows_t = relu(1 - distance(word("before"), prompt.CODE["t"]))
    valued = relu(is_label + follows_t - 1)
    return Round(
        receive={"before": reads("code", [None, *range(NODES - 1)])},
        update={"label": minimum(code + 1, prompt.IDS * valued)},
        note="labels that carry a value",
    )


def _compare() -> Round:
    """asked: a bit, whether a number's label is one of the question's. operation: the letter that tells which."""
    places = range(prompt.DISTRACTORS + 1)
    queried = [f"queried {number}" for number in range(prompt.QUERIED)]
    own = Sum(tuple(word(f"label {d}") for d in places))
    is_asked = Sum(tuple(relu(1 - distance(own, word(name) + 1)) for name in queried))
    first = prompt.LIST_CHARACTERS
    return Round(
        receive={
            **{f"label {d}": _numbers_read("label", lambda i, d=d: prompt.label_place(i, d)) for d in places},
            **{
                name: _numbers_read("code", lambda _, at=at: first + at)
                for name, at in zip(queried, prompt.QUERIED_AT, strict=True)
            },
            "letter": _first_reads("code", first + prompt.OPERATION_AT + 1),
        },
        update={
            "asked": is_asked,
            "x": gate(x, shut=1 - is_asked),
            "operation": word("letter"),
        },
        note="numbers that are asked for",
    )


def _answer(task: MixedTask) -> Round:
    """Join all numbers in pairs, pairs of pairs and so on."""
    numbers = range(prompt.LABELS)
    read: list[Asked] = [(word(f"x {i}"), word(f"asked {i}")) for i in numbers]
    found = {name: _joined(read, JOINS[name])[0] for name in task.operations}
    if len(found) == 1:
        (answer,) = found.values()
    else:
        answer = Sum(
            tuple(gate(value, shut=distance(word("operation"), LETTER[name])) for name, value in found.items())
        )
    registers = ("x", "asked")
    return Round(
        receive={f"{name} {i}": _first_reads(name, prompt.CHARACTERS + i) for i in numbers for name in registers},
        update={"x": answer},
        note=" or ".join(task.operations),
    )


def _joined(read: list[Asked], join: Callable[[Asked, Asked], Expression]) -> Asked:
    while len(read) > 1:
        pairs = zip(read[::2], read[1::2], strict=True)
        read = [(join(one, other), minimum(1, one[1] + other[1])) for one, other in pairs]
    return read[0]


def _sum(one: Asked, other: Asked) -> Expression:
    return one[0] + other[0]


def _min(one: Asked, other: Asked) -> Expression:
    return _sum(one, other) - gate(maximum(one[0], other[0]), shut=2 - one[1] - other[1])


def _max(one: Asked, other: Asked) -> Expression:
    return _sum(one, other) - gate(minimum(one[0], other[0]), shut=2 - one[1] - other[1])


JOINS: dict[str, Callable[[Asked, Asked], Expression]] = {"min": _min, "sum": _sum, "max": _max}


def _numbers_read(register: str, place: Callable[[int], int]) -> tuple[Source, ...]:
    """A table by which the nodes of numbers read characters, and the others nothing."""
    return reads(register, [None] * prompt.CHARACTERS + [place(number) for number in range(prompt.LABELS)])


def _first_reads(register: str, place: int) -> tuple[Source, ...]:
    return reads(register, [place] + [None] * (NODES - 1))
