"""A pretrained language model on mixed-type samples: GPT-2, fine-tuned on the prompts as plain text.

Back de Luca et al. 2025, Fig. 6: `gpt2-large`, AdamW at 2e-5, 100 warm-up steps, linear decay, 3 epochs in batches
of 16, numbers written as 003.21, greedy answers of which the first 6 characters count. The wording of the prompt is
ours:

    CatA 003.21, Cat+A, CatD 001.20, … Find min of categories CatD, CatK, CatA and CatP. Answer: 001.20

Answers that are no number are counted beside the scores of those that are. Samples and test sets are those a `Trial`
with the same seed meets on the CPU. Needs the extra `gpt2`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posattn import devices, tasks
from posattn.errors import PosattnError, require, unknown
from posattn.tasks.mixed import GLYPHS, LIST_CHARACTERS, TASKS, MixedInputs
from posattn.train import identity
from posattn.train.fleet.data import draw
from posattn.train.language.pretrained import Language, check_installed, load, quiet
from posattn.train.streams import stream
from posattn.train.trial import Evaluation, Options, check_finite, check_options, check_whole, own_options, spelled_out

#: PyTorch's defaults of AdamW, which are part of what a trial is.
ADAMW = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
ENTRY = re.compile(r"Cat([-+*_]?)(\w)")
NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
READ_CHARACTERS = 6
#: A token may be as little as one character: room for a blank, the number and the end.
NEW_TOKENS = READ_CHARACTERS + 2
TEST_BATCH = 64
IGNORED = -100  # the label that cross-entropy leaves out


@identity.register
@dataclass(frozen=True, kw_only=True)
class LanguageTrial:
    """One fine-tuning run. `model` is a name on the hub or a folder, `options` draw the training samples.

    The test sets inherit those options and name what is different.
    """

    kind: ClassVar[str] = "language"

    task: str
    samples: int
    test_samples: int
    model: str = "gpt2-large"
    sets: Mapping[str, Options] = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    batch: int = 16
    epochs: int = 3
    lr: float = 2e-5
    warm_up: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        identity.settle(self)
        check_options("data", self.options)
        Evaluation(samples=self.test_samples, sets=self.sets)  # checks them
        known = [task.name for task in TASKS]
        if self.task not in known:
            raise unknown("task for a language model", self.task, known)
        named = isinstance(self.model, str) and bool(self.model.strip())
        require(named, f"model={self.model!r}: give a name on the hub, as 'gpt2-large', or a folder.")
        check_whole(samples=self.samples, batch=self.batch, epochs=self.epochs, warm_up=self.warm_up, seed=self.seed)
        check_finite(lr=self.lr)
        for name in ("samples", "batch", "epochs"):
            require(getattr(self, name) >= 1, f"{name}={getattr(self, name)}: it is 1 or more.")
        require(self.lr > 0, f"lr={self.lr}: a learning rate is above 0.")
        # More warm-up than steps is no mistake: a short run of the defaults ends within it.
        require(self.warm_up >= 0, f"warm_up={self.warm_up}: a number of steps, or 0 for none.")

    @property
    def steps(self) -> int:
        """All batches of all epochs; the last one of an epoch may be smaller."""
        return self.epochs * math.ceil(self.samples / self.batch)

    def test_options(self, name: str) -> Options:
        """What a test set is drawn with: the options of the training samples, and those it names itself."""
        return dict(self.options) | dict(self.sets[name])

    @property
    def id(self) -> str:
        """Sixteen hex digits, as those of a `Trial`."""
        differing = identity.reduced(self)
        if self.sets:
            differing["sets"] = own_options(self.sets, self.options)
        return identity.identify(differing)

    def to_json(self) -> str:
        """Laid out like a `Trial`'s, so that one table holds both; `kind` keeps them apart."""
        fields = {
            "schema": identity.SCHEMA,
            "kind": self.kind,
            "task": self.task,
            "model": self.model,
            "data": {"samples": self.samples, "batch": self.batch, "epochs": self.epochs, "options": self.options},
            "optimiser": ADAMW
            | {"name": "adamw", "steps": self.steps, "lr": self.lr, "schedule": "linear", "warmup": self.warm_up},
            "evaluation": {"samples": self.test_samples, "sets": self.sets},
            "seed": self.seed,
        }
        return identity.dumps(fields)

    @classmethod
    def from_json(cls, text: str | bytes) -> "LanguageTrial":
        schema, fields = identity.loads(text)
        try:
            data, optimiser, tested = fields["data"], fields["optimiser"], fields["evaluation"]
            sets = tested["sets"]
            if schema == 1:
                sets = spelled_out(sets, data["options"], tasks.get(fields["task"]))
            found = cls(
                task=fields["task"],
                samples=data["samples"],
                test_samples=tested["samples"],
                model=fields["model"],
                sets=sets,
                options=data["options"],
                batch=data["batch"],
                epochs=data["epochs"],
                lr=optimiser["lr"],
                warm_up=optimiser["warmup"],
                seed=fields["seed"],
            )
            identity.check_known(fields, found.to_json())
        except (KeyError, TypeError, AttributeError) as error:
            raise identity.no_trial(text, error) from None
        return found


def rate(trial: LanguageTrial, step: int) -> float:
    """The learning rate of a step, counted from 0: up to lr over `warm_up` steps, then down a line that ends at 0."""
    if step < trial.warm_up:
        return trial.lr * (step + 1) / trial.warm_up
    return trial.lr * (trial.steps - step) / (trial.steps - trial.warm_up)


# ---- samples as text


def prompts(inputs: MixedInputs) -> list[str]:
    """Each sample as a sentence to be continued: a label's number follows it, a distractor has none."""
    numbers, count = _written(inputs.numbers.flatten()), inputs.numbers.shape[1]
    return [
        _prompt(codes, iter(numbers[row * count : (row + 1) * count]))
        for row, codes in enumerate(inputs.characters.tolist())
    ]


def answers(target: Float[Tensor, "batch 1"]) -> list[str]:
    """What continues each prompt.

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


# ---- texts as tokens


def text_batch(
    asked: Sequence[list[int]], answered: Sequence[list[int]], pad: int
) -> dict[str, Int[Tensor, "batch tokens"]]:
    """Prompts followed by their answers, padded at the end. Only the answers have labels, so only they are learned."""
    width = max(len(prompt) + len(answer) for prompt, answer in zip(asked, answered, strict=True))
    ids = torch.full((len(asked), width), pad)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, IGNORED)
    for row, (prompt, answer) in enumerate(zip(asked, answered, strict=True)):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        mask[row, :end] = 1
        labels[row, len(prompt) : end] = torch.tensor(answer)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def continued(language: Language, asked: list[list[int]]) -> list[str]:
    """What the model greedily says after each prompt. Prompts are padded in front, so that all end at one place."""
    texts: list[str] = []
    for start in range(0, len(asked), TEST_BATCH):
        part = asked[start : start + TEST_BATCH]
        width, device = max(map(len, part)), language.model.device
        ids = torch.tensor([[language.end] * (width - len(prompt)) + prompt for prompt in part], device=device)
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in part], device=device)
        with torch.inference_mode():
            said = language.model.generate(input_ids=ids, attention_mask=mask)[:, width:]
        texts += language.tokenizer.batch_decode(said, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return texts


# ---- learning and scoring


def fine_tune(
    trial: LanguageTrial, *, device: str | torch.device = "auto", report: Callable[[int, float], None] | None = None
) -> list[dict[str, Any]]:
    """Train on the answers, then score every test set: a row each. `report` gets each step's number and loss.

    A row's loss and metric are means over the answers that are numbers, None where no answer is one.
    """
    where = devices.resolve(device)
    asked, target = _drawn(trial, trial.samples, trial.options, "data")
    tested = {
        name: _drawn(trial, trial.test_samples, trial.test_options(name), f"test set {name}") for name in trial.sets
    }
    check_installed(trial.model)
    with quiet(), _own_randomness(trial.seed, where):
        language = load(trial.model, new_tokens=NEW_TOKENS)
        language.model.to(device=where, dtype=torch.float32)
        questions = {name: language.encode(texts, room=NEW_TOKENS) for name, (texts, _) in tested.items()}
        _train(trial, language, asked, answers(target), report)
        language.model.eval()
        return [
            {"set": name, "step": trial.steps} | score(trial.task, continued(language, questions[name]), truth)
            for name, (_, truth) in tested.items()
        ]


def _drawn(trial: LanguageTrial, count: int, options: Options, purpose: str) -> tuple[list[str], Tensor]:
    """Prompts and exact answers. Both have two decimals, which float32 only comes near to."""
    generator = stream(trial.seed, purpose)
    *inputs, target = draw(tasks.get(trial.task), count, options, generator, torch.float64)
    return prompts(MixedInputs(*inputs)), target.mul(100).round().div(100)


def _train(
    trial: LanguageTrial,
    language: Language,
    asked: list[str],
    answered: list[str],
    report: Callable[[int, float], None] | None,
) -> None:
    model = language.model.train()
    optimiser = torch.optim.AdamW(model.parameters(), **ADAMW)
    questions = language.encode(asked, room=NEW_TOKENS)
    replies = [[*tokens, language.end] for tokens in language.encode(answered, special=False)]
    step = 0
    for epoch in range(trial.epochs):
        order = torch.randperm(trial.samples, generator=stream(trial.seed, "shuffle", epoch))
        for chosen in order.split(trial.batch):
            rows = chosen.tolist()
            batch = text_batch([questions[row] for row in rows], [replies[row] for row in rows], language.end)
            for group in optimiser.param_groups:
                group["lr"] = rate(trial, step)
            loss = model(**{name: tensor.to(model.device) for name, tensor in batch.items()}).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
            if report is not None:
                report(step, loss.item())


def score(task: str, texts: list[str], target: Float[Tensor, "count 1"]) -> dict[str, Any]:
    """MSE and MAPE over the answers that are numbers, and how many are not."""
    pairs = [([number], truth) for number, truth in zip(map(parse, texts), target.tolist(), strict=True)]
    pairs = [(guess, truth) for guess, truth in pairs if guess != [None]]
    counts = {"unparseable": len(texts) - len(pairs), "answers": len(texts)}
    if not pairs:
        return {"loss": None, "metric": None} | counts
    guess, truth = (torch.tensor(side, dtype=torch.float64) for side in zip(*pairs, strict=True))
    judge = tasks.get(task)
    return {"loss": judge.loss(guess, truth).item(), "metric": judge.metric(guess, truth).item()} | counts


@contextmanager
def _own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Dropout draws from the global generators: they start from a stream of the trial's, and are put back."""
    cuda = [device] if device.type == "cuda" else []
    number = stream(seed, "dropout").initial_seed()
    with torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(number)
        for each in cuda:
            with torch.cuda.device(each):
                torch.cuda.manual_seed(number)
        yield
