"""Mixed-type inputs: labels as text beside numbers, and a question about some of them.

Back de Luca et al. 2025, Fig. 6. A prompt lists 8 labels in order of their id, with two distractors in between, and
asks for the min, sum or max of the values of four labels:

    CatA CatD Cat+A … Find min of categories CatD, CatK, CatA and CatP

90 characters (the blanks between labels above are for the reader), then the 8 values in the labels' order.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posattn.checks import choice, finite, switch
from posattn.errors import require
from posattn.tasks.base import FIXED, UNSCORED, Task, check_described, check_inputs, drawing_device
from posattn.tasks.number_sampling import sample_numbers
from posattn.tasks.scoring import check_scored, squared_error

LABEL_GLYPHS = "ABDEGHIJKLMNOPQRSTUV" + "WXYZΓΔΘΛΞΠΣΦΨΩαβγδεζ"  # ids 1–20 for training, 21–40 held out
TRAIN_IDS, IDS = 20, 40
SYMBOLS = {False: "+-", True: "*_"}  # distractors' marks, in training and held out
GLYPHS = LABEL_GLYPHS + "".join(sorted(set("Cat" + "Find min sum max of categories, and " + "+-*_")))
CODE = {glyph: code for code, glyph in enumerate(GLYPHS)}

LABELS, DISTRACTORS, QUERIED = 8, 2, 4
LIST_CHARACTERS = 4 * LABELS + 5 * DISTRACTORS
QUESTION = "Find min of categories Cat?, Cat?, Cat? and Cat?"
OPERATION_AT = QUESTION.index("min")
QUERIED_AT = [place for place, glyph in enumerate(QUESTION) if glyph == "?"]
OPERATIONS = ("min", "sum", "max")
CHARACTERS = LIST_CHARACTERS + len(QUESTION)


#: Two characters that are equal where the question asks for the max: its second letter, and that of “Cat”.
DECIDES = (LIST_CHARACTERS + OPERATION_AT + 1, 1)


def label_place(number: int, distractors: int) -> int:
    """Which character the label of a number is, both counted from 0, with so many distractors before it."""
    return 4 * number + 5 * distractors + 3


def compared() -> tuple[tuple[tuple[tuple[int, int], ...], ...], ...]:
    """For every number and every place of its label: pairs of characters that tell whether to count the number.

    A label is there, and not a distractor's, where the character before it is a “t” and the next one a “C”, as in the
    first label; and it is asked for where it equals one of the labels in the question.

    >>> compared()[0][0][:2]
    ((2, 2), (4, 0))
    """
    last = LIST_CHARACTERS - 1

    def pairs(place: int) -> tuple[tuple[int, int], ...]:
        after = 0 if place == last else place + 1
        return ((place - 1, 2), (after, 0), *((place, LIST_CHARACTERS + at) for at in QUERIED_AT))

    places = range(DISTRACTORS + 1)
    return tuple(tuple(pairs(label_place(number, d)) for d in places) for number in range(LABELS))


class MixedInputs(NamedTuple):
    characters: Int[Tensor, "batch characters"]
    numbers: Float[Tensor, "batch labels"]


def _codes(text: str, device: torch.device) -> Int[Tensor, "characters"]:
    return torch.tensor([CODE[glyph] for glyph in text], device=device)


@dataclass(frozen=True)
class MixedTask(Task):
    """Answer "Find min of categories …" over a list of labelled values. Values have two decimals."""

    name: str
    summary: str
    operations: tuple[str, ...] = field(metadata=FIXED | UNSCORED)

    metric_name = "MAPE"

    def __post_init__(self) -> None:
        check_described(self)
        several = isinstance(self.operations, tuple) and len(self.operations) > 0
        require(several, f"operations={self.operations!r}: name one or more of {', '.join(OPERATIONS)}, as ('min',).")
        for operation in self.operations:
            choice("operation", operation, OPERATIONS)

    def sample(
        self,
        count: int,
        *,
        low: float = 0.0,
        high: float = 5.0,
        avoid: tuple[float, float] | None = None,
        held_out: bool = False,
        generator: torch.Generator,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[MixedInputs, Float[Tensor, "count 1"]]:
        """`held_out` uses the labels and distractor marks kept for testing."""
        where = drawing_device(count, generator, device)
        held_out = switch("held_out", held_out)

        def pick(total: int, some: int) -> Int[Tensor, "count some"]:
            """`some` distinct numbers below `total`, in random order, for every sample."""
            return torch.rand(count, total, generator=generator, device=where).argsort(1)[:, :some]

        labels = pick(TRAIN_IDS, LABELS).sort(1).values + (TRAIN_IDS if held_out else 0)
        slots = pick(LABELS + DISTRACTORS, DISTRACTORS)
        copied = labels.gather(1, pick(LABELS, DISTRACTORS))
        marks = _codes(SYMBOLS[held_out], where)[
            torch.randint(0, 2, (count, DISTRACTORS), generator=generator, device=where)
        ]
        queried = labels.gather(1, pick(LABELS, QUERIED))
        chosen = torch.randint(0, len(self.operations), (count,), generator=generator, device=where)
        numbers = sample_numbers(
            count, LABELS, low=low, high=high, avoid=avoid, integers=False, generator=generator, dtype=dtype
        )
        numbers = (numbers.double() * 100).round().div(100).to(dtype)
        operations = torch.stack([_codes(name, where) for name in self.operations])[chosen]
        characters = torch.cat([_written_list(labels, slots, copied, marks), _question(queried, operations)], dim=1)
        inputs = MixedInputs(characters, numbers)
        return inputs, self._solve(inputs)

    def target(self, inputs: MixedInputs) -> Float[Tensor, "batch 1"]:
        characters, numbers = check_inputs(self.name, inputs, MixedInputs)
        require(
            characters.dim() == 2
            and characters.dtype == torch.int64
            and characters.shape[1] == CHARACTERS
            and tuple(numbers.shape) == (characters.shape[0], LABELS),
            f"task '{self.name}': characters {tuple(characters.shape)}, {characters.dtype}, and numbers "
            f"{tuple(numbers.shape)} must be (batch, {CHARACTERS}), int64, and (batch, {LABELS}).",
        )
        require(
            numbers.is_floating_point(),
            f"task '{self.name}': the numbers have dtype {numbers.dtype}, they must be floating point: use .float().",
        )
        finite(f"task '{self.name}': the numbers", numbers)
        valued, match = _found(characters)
        words = torch.stack([_codes(name, characters.device) for name in self.operations])
        asked = characters[:, LIST_CHARACTERS + OPERATION_AT :][:, None, :3] == words
        require(
            bool((valued.sum(1) == LABELS).all() & (match.sum(2) == 1).all() & asked.all(2).any(1).all()),
            f"task '{self.name}': every prompt must list {LABELS} labels and ask for the "
            f"{' or '.join(self.operations)} of {QUERIED} among them, as sample() writes it.",
        )
        return self._solve(inputs)

    def _solve(self, inputs: MixedInputs) -> Float[Tensor, "batch 1"]:
        """Read the prompt as a person would: find the labels that carry a value, then those the question names."""
        valued, match = _found(inputs.characters)
        rank = (valued.cumsum(1) - 1).clamp(0, LABELS - 1)
        values = inputs.numbers.double().gather(1, rank.gather(1, match.int().argmax(2)))
        second = inputs.characters[:, LIST_CHARACTERS + OPERATION_AT + 1]  # m-i-n, s-u-m, m-a-x
        total, least, most = values.sum(1), values.amin(1), values.amax(1)
        answer = torch.where(second == CODE["u"], total, torch.where(second == CODE["i"], least, most))
        return answer.to(inputs.numbers.dtype).unsqueeze(1)

    def text(self, inputs: MixedInputs) -> list[str]:
        """The characters of each sample as a string."""
        characters, _ = check_inputs(self.name, inputs, MixedInputs)
        return ["".join(GLYPHS[code] for code in row) for row in characters.tolist()]

    def loss(
        self, prediction: Float[Tensor, "*replicas batch 1"], target: Float[Tensor, "*replicas batch 1"]
    ) -> Float[Tensor, "*replicas"]:
        """Mean squared error of the answer, read at node 0."""
        check_scored(self.name, prediction, target, axes=2)
        return squared_error(prediction, target, axes=2)

    def metric(
        self, prediction: Float[Tensor, "*replicas batch 1"], target: Float[Tensor, "*replicas batch 1"]
    ) -> Float[Tensor, "*replicas"]:
        """Mean absolute error relative to the target, which is taken as at least one cent."""
        check_scored(self.name, prediction, target, axes=2)
        return ((prediction - target).abs() / target.abs().clamp(min=0.01)).mean(dim=(-2, -1))

    def example(self) -> str:
        inputs, answer = self.sample(1, generator=torch.Generator().manual_seed(0))
        return f"… {self.text(inputs)[0][LIST_CHARACTERS:]} → {answer.item():.2f}"


def _found(
    characters: Int[Tensor, "batch characters"],
) -> tuple[Bool[Tensor, "batch listed"], Bool[Tensor, "batch queried listed"]]:
    """Which characters of the list are labels that carry a value, and where each queried label is among them."""
    listed, question = characters[:, :LIST_CHARACTERS], characters[:, LIST_CHARACTERS:]
    before = torch.nn.functional.pad(listed, (1, 0))[:, :-1]
    valued = (listed < IDS) & (before == CODE["t"])  # a distractor has its mark before the label
    return valued, valued[:, None, :] & (listed[:, None, :] == question[:, QUERIED_AT, None])


def _written_list(
    labels: Int[Tensor, "count labels"],
    slots: Int[Tensor, "count distractors"],
    copied: Int[Tensor, "count distractors"],
    marks: Int[Tensor, "count distractors"],
) -> Int[Tensor, "count characters"]:
    """Ten entries, "Cat" + label or "Cat" + mark + label, written one after the other without gaps."""
    count, entries = labels.shape[0], LABELS + DISTRACTORS
    distracts = torch.zeros(count, entries, dtype=torch.bool, device=labels.device).scatter(1, slots, True)
    label = labels.gather(1, ((~distracts).cumsum(1) - 1).clamp(min=0))
    label = label.scatter(1, slots, copied)
    mark = torch.zeros_like(label).scatter(1, slots, marks)
    start = 4 * torch.arange(entries, device=labels.device) + distracts.cumsum(1) - distracts.long()
    text = labels.new_zeros(count, LIST_CHARACTERS)
    for offset, glyph in enumerate("Cat"):
        text.scatter_(1, start + offset, CODE[glyph])
    text.scatter_(1, start + 3, torch.where(distracts, mark, label))
    return text.scatter(1, start + 3 + distracts.long(), label)


def _question(
    queried: Int[Tensor, "count queried"], operations: Int[Tensor, "count 3"]
) -> Int[Tensor, "count characters"]:
    template = _codes(QUESTION.replace("?", LABEL_GLYPHS[0]), queried.device)
    text = template.repeat(queried.shape[0], 1)
    text[:, OPERATION_AT : OPERATION_AT + 3] = operations
    text[:, QUERIED_AT] = queried
    return text


TASKS = (
    MixedTask("mixed-min", "minimum of the labelled values a text asks for", ("min",)),
    MixedTask("mixed-sum", "sum of the labelled values a text asks for", ("sum",)),
    MixedTask("mixed-multitask", "min or max, as the text says", ("min", "max")),
)
