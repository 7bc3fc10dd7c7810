"""A trial of a pretrained language model: which model, which samples, how it is fine-tuned."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from posattn import checks, tasks
from posattn.errors import require, unknown
from posattn.tasks.mixed import TASKS
from posattn.train import identity
from posattn.train.runnable import Runnable
from posattn.train.sample_options import BY_NAME, Options, Sets, TestSets, own_options, spelled_out, with_inherited
from posattn.train.trial_parts import Data, Evaluation

#: PyTorch's defaults of AdamW, which are part of what a trial is.
ADAMW = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}

#: Fields of a trial by the names that `to_json`, and so tables, have for them.
FIELDS = {
    "data.samples": "samples",
    "data.batch": "batch",
    "data.epochs": "epochs",
    "data.options": "options",
    "optimiser.lr": "lr",
    "optimiser.warmup": "warm_up",
    "evaluation.samples": "test_samples",
    "evaluation.sets": "sets",
}


@identity.register
@dataclass(frozen=True, kw_only=True)
class LanguageTrial(Runnable):
    """One fine-tuning run. `model` is a name on the hub or a folder, `options` draw the training samples.

    The test sets inherit those options and name what is different.
    """

    kind: ClassVar[str] = "language"
    verb: ClassVar[str] = "fine-tuning"

    task: str
    samples: int
    test_samples: int
    model: str = "gpt2-large"
    sets: Sets = field(default=(), metadata=BY_NAME)
    options: Options = field(default_factory=dict)
    batch: int = 16
    epochs: int = 3
    lr: float = 2e-5
    warm_up: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        identity.settle(self)
        Data(options=self.options)  # checks them
        Evaluation(samples=self.test_samples, sets=self.sets)
        known = [task.name for task in TASKS]
        if self.task not in known:
            raise unknown("task for a language model", self.task, known)
        named = isinstance(self.model, str) and bool(self.model.strip())
        require(named, f"model={self.model!r}: give a name on the hub, as 'gpt2-large', or a folder.")
        for name in ("samples", "batch", "epochs"):
            checks.whole(name, getattr(self, name), least=1)
        checks.whole("warm_up", self.warm_up)
        checks.whole("seed", self.seed)
        require(checks.real("lr", self.lr) > 0, f"lr={self.lr}: a learning rate is above 0.")
        # More warm-up than steps is no mistake: a short run of the defaults ends within it.
        require(self.warm_up >= 0, f"warm_up={self.warm_up}: a number of steps, or 0 for none.")

    @property
    def steps(self) -> int:
        """All batches of all epochs; the last one of an epoch may be smaller."""
        return self.epochs * math.ceil(self.samples / self.batch)

    @property
    def shown_steps(self) -> int:
        return self.steps

    def seeded(self, seed: int) -> "LanguageTrial":
        return replace(self, seed=seed)

    @cached_property
    def test_sets(self) -> TestSets:
        return with_inherited(self.sets, self.options)

    @property
    def title(self) -> str:
        return f"{self.model} on {self.task}"

    @property
    def needs(self) -> str:
        return self.model

    def differing(self) -> dict[str, Any]:
        """An option that a test set inherits may be spelled out or not."""
        own = {"sets": own_options(self.sets, self.options)} if self.sets else {}
        return identity.reduced(self) | own

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
            "evaluation": {"samples": self.test_samples, "sets": own_options(self.sets, {})},
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

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0: up to lr over `warm_up` steps, then a line down to 0."""
        if step < self.warm_up:
            return self.lr * (step + 1) / self.warm_up
        return self.lr * (self.steps - step) / (self.steps - self.warm_up)
