"""A trial: everything about one training run, as a value.

Its id is a hash of what in it differs from the defaults (`identity`), so two equal trials are the same run, on every
machine. Results, checkpoints and resume are keyed by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter
from typing import Any

from posattn import checks, nn, tasks
from posattn.errors import PosattnError, kind_of, require, unknown
from posattn.nn.sizes import GIVEN
from posattn.tasks.base import sample_options
from posattn.train import identity

Options = Mapping[str, Any]

PRECISIONS = ("float32", "tf32", "bf16", "float64")
OPTIMISERS = ("adam", "adamw", "sgd")
SCHEDULES = ("constant", "plateau", "linear", "cosine", "drop", "one-cycle")


@dataclass(frozen=True, kw_only=True)
class Data:
    """Training data: `samples` drawn by the task with `options`, met in batches.

    An epoch is ⌊samples / batch⌋ batches of a fresh shuffle. With `fresh`, the samples themselves are drawn anew every
    epoch, which is online training. `lengths` gives each length an equal share of the samples, a batch has one length,
    and which one is a function of the step alone.
    """

    samples: int = 30_000
    batch: int = 1000
    options: Options = field(default_factory=dict)
    fresh: bool = False
    lengths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        identity.settle(self)
        check_options("data", self.options)
        check_whole(samples=self.samples, batch=self.batch)
        require(isinstance(self.lengths, tuple), f"lengths={self.lengths!r}: give a list of whole numbers.")
        for length in self.lengths:
            check_whole(length=length)
        require(isinstance(self.fresh, bool), f"fresh={self.fresh!r}: it must be True or False.")
        require(self.batch >= 1, f"batch={self.batch}: a batch has at least one sample.")
        require(
            self.batch <= self.share,
            f"batch={self.batch} is larger than the data: samples={self.samples}"
            + (f" over {len(self.lengths)} lengths leave {self.share} a length." if self.lengths else ".")
            + " Use a smaller batch or more samples.",
        )

    @property
    def share(self) -> int:
        """Samples of each length."""
        return self.samples // max(1, len(self.lengths))

    @property
    def batches(self) -> int:
        """Steps in an epoch."""
        return (self.share // self.batch) * max(1, len(self.lengths))


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """How weights change, for how many steps, at which learning rate.

    `plateau`: times `factor` after `patience` epochs without a better training loss, not below `floor`.
    `linear`, `cosine`: constant up to the share `decay_from` of all steps, then down to 0.
    `drop`: constant up to that share, then times `factor`.
    `one-cycle`: up from lr/25 over the first 30 %, then down to lr/250,000, both by a cosine.
    `warmup`: that many steps of linear increase come on top of any schedule.
    """

    steps: int
    name: str = "adam"
    lr: float = 5e-4
    schedule: str = "constant"
    warmup: int = 0
    patience: int = 50
    factor: float = 0.9
    floor: float = 1e-6
    decay_from: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None

    def __post_init__(self) -> None:
        identity.settle(self)
        if self.name not in OPTIMISERS:
            raise unknown("optimiser", self.name, OPTIMISERS)
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        check_whole(steps=self.steps, warmup=self.warmup, patience=self.patience)
        check_finite(lr=self.lr, factor=self.factor, floor=self.floor, decay_from=self.decay_from, eps=self.eps)
        check_finite(momentum=self.momentum, weight_decay=self.weight_decay)
        require(self.steps >= 1, f"steps={self.steps}: train for at least one step.")
        require(self.lr > 0, f"lr={self.lr}: a learning rate is above 0.")
        require(0 <= self.warmup <= self.steps, f"warmup={self.warmup}: it must lie in 0 … steps={self.steps}.")
        require(0 <= self.decay_from < 1, f"decay_from={self.decay_from}: it is a share of all steps, in [0, 1).")
        require(0 < self.factor < 1, f"factor={self.factor}: what a schedule shrinks the rate by lies in (0, 1).")
        for name in ("patience", "floor", "weight_decay"):
            require(getattr(self, name) >= 0, f"{name}={getattr(self, name)}: it is 0 or more.")
        require(isinstance(self.betas, tuple), f"betas={self.betas!r}: give two numbers.")
        check_finite(**{f"betas[{at}]": beta for at, beta in enumerate(self.betas)})
        require(
            len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas),
            f"betas={self.betas}: Adam keeps two running means, each with a share in [0, 1) of what it was.",
        )
        require(0 <= self.momentum < 1, f"momentum={self.momentum}: a share of the last step, in [0, 1).")
        require(self.eps > 0, f"eps={self.eps}: it keeps Adam from dividing by 0, so above 0.")
        check_finite(clip=1.0 if self.clip is None else self.clip)
        require(self.clip is None or self.clip > 0, f"clip={self.clip}: a norm to clip at is above 0.")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Test sets: `samples` of each, scored at the end; with `every` also before the first step and every so many steps.

    A set inherits the options of the training data and names those that are different: `{"far": {"high": 6.0}}`.
    """

    samples: int = 1000
    sets: Mapping[str, Options] = field(default_factory=dict)
    every: int = 0

    def __post_init__(self) -> None:
        identity.settle(self)
        check_options("evaluation", self.sets, what="sets")
        for name, options in self.sets.items():
            check_options(f"test set '{name}'", options)
        check_whole(samples=self.samples, every=self.every)
        require(self.samples >= 1, f"evaluation samples={self.samples}: score at least one sample.")
        require(self.every >= 0, f"evaluation every={self.every}: a number of steps, or 0 for the end alone.")
        require("train" not in self.sets, "a test set is called 'train', which is the training loss's own name.")


@identity.register
@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training run.

    `task_version` is the version of the task as it is registered, unless a trial of another one is described.
    """

    task: str
    model: nn.Architecture
    optimiser: Optimiser
    data: Data = field(default_factory=Data)
    evaluation: Evaluation = field(default_factory=Evaluation)
    task_options: Options = field(default_factory=dict)
    precision: str = "float32"
    seed: int = 0
    task_version: int | None = None

    def __post_init__(self) -> None:
        require(
            isinstance(self.model, nn.Architecture),
            f"model is {kind_of(self.model)}: pass what describes one, as posattn.nn.Positional(length=8).",
        )
        for name, kind in (("optimiser", Optimiser), ("data", Data), ("evaluation", Evaluation)):
            held = getattr(self, name)
            require(
                isinstance(held, kind),
                f"{name} is {kind_of(held)}: pass a posattn.train.{kind.__name__}.",
            )
        identity.settle(self)
        check_options("task", self.task_options, what="task_options")
        task = tasks.get(self.task, **self.task_options)
        if self.task_version is None:
            object.__setattr__(self, "task_version", task.version)
        check_whole(seed=self.seed, task_version=self.task_version)
        version = self.task_version
        require(version is None or version >= 1, f"task_version={version}: versions of a task count from 1.")
        for name in ("encoding", "constants"):
            require(
                getattr(self.model, name, None) != GIVEN,
                f"{name}={GIVEN!r} of the model stands for a matrix, and a trial holds none: use an encoding's name.",
            )
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)

    def test_options(self, name: str) -> Options:
        """What a test set is drawn with: the options of the training data, and those it names itself."""
        return dict(self.data.options) | dict(self.evaluation.sets[name])

    @property
    def id(self) -> str:
        """Sixteen hex digits, equal for equal trials; an inherited option of a test set may be spelled out or not."""
        return self._id

    @cached_property
    def _id(self) -> str:
        differing = self._versioned(identity.reduced(self))
        if self.evaluation.sets:
            differing["evaluation"]["sets"] = own_options(self.evaluation.sets, self.data.options)
        return identity.identify(differing)

    def _versioned(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Fields without the version of the task where that is 1, which it was before tasks had versions."""
        return {name: value for name, value in fields.items() if name != "task_version" or value != 1}

    def to_json(self) -> str:
        return identity.dumps({"schema": identity.SCHEMA} | self._versioned(identity.described(self)))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Trial":
        schema, fields = identity.loads(text)
        try:
            task = tasks.get(fields["task"], **fields.get("task_options", {}))
            data = Data(**fields.get("data", {}))
            tested = dict(fields.get("evaluation", {}))
            if schema == 1:
                tested["sets"] = spelled_out(tested.get("sets", {}), data.options, task)
            parts: dict[str, Any] = {"task_version": 1} | fields | {"data": data, "evaluation": Evaluation(**tested)}
            parts |= {
                "optimiser": Optimiser(**fields["optimiser"]),
                "model": nn.from_json(identity.dumps(fields["model"])),
            }
            return cls(**parts)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise error if isinstance(error, PosattnError) else identity.no_trial(text, error) from None


def own_options(sets: Mapping[str, Options], inherited: Options) -> dict[str, Options]:
    """Test sets without what they would inherit anyway."""

    def names(options: Options) -> Options:
        return {
            name: value
            for name, value in options.items()
            if name not in inherited or not identity.same(value, inherited[name])
        }

    return {name: names(options) for name, options in sets.items()}


def spelled_out(sets: Mapping[str, Options], data: Options, task: Any) -> dict[str, Options]:
    """Test sets of schema 1, which inherited nothing: where the data has an option, the task's default is theirs."""
    usual = {name: default for name, default in sample_options(task).items() if name in data}
    usual = {name: default for name, default in usual.items() if default is not Parameter.empty}
    return {name: usual | dict(options) for name, options in sets.items()}


def check_options(whose: str, options: Any, *, what: str = "options") -> None:
    require(
        isinstance(options, Mapping),
        f"{what} of the {whose}: {options!r} is {kind_of(options)}, and it must be a dict.",
    )


def check_whole(**values: Any) -> None:
    for name, value in values.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        require(whole, f"{name}={checks.shown(value)}: it must be a whole number.")
        within = abs(value) < 2**63
        require(within, f"{name}={checks.shown(value)}: it must lie below 2⁶³, which is as far as tensors count.")


def check_finite(**values: Any) -> None:
    for name, value in values.items():
        real = isinstance(value, (int, float)) and not isinstance(value, bool)
        require(real and checks.is_finite(value), f"{name}={checks.shown(value)}: it must be a finite number.")
