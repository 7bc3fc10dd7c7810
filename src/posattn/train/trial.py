"""A trial: everything about one training run, as a value.

Its id is a hash of its canonical JSON, so two equal trials are the same run, on every machine. Results, checkpoints
and resume are keyed by it.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posattn import nn, tasks
from posattn.errors import PosattnError, require, unknown
from posattn.nn.numeric import GIVEN

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
        object.__setattr__(self, "options", frozen(self.options))
        object.__setattr__(self, "lengths", tuple(self.lengths))
        check_whole(samples=self.samples, batch=self.batch)
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
        object.__setattr__(self, "betas", tuple(self.betas))
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
        require(
            len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas),
            f"betas={self.betas}: Adam keeps two running means, each with a share in [0, 1) of what it was.",
        )
        require(0 <= self.momentum < 1, f"momentum={self.momentum}: a share of the last step, in [0, 1).")
        require(self.eps > 0, f"eps={self.eps}: it keeps Adam from dividing by 0, so above 0.")
        require(self.clip is None or self.clip > 0, f"clip={self.clip}: a norm to clip at is above 0.")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Test sets: `samples` drawn by the task with each set's options, scored at the end.

    With `every` also before the first step, and every so many steps.
    """

    samples: int = 1000
    sets: Mapping[str, Options] = field(default_factory=dict)
    every: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sets", {name: frozen(options) for name, options in self.sets.items()})
        check_whole(samples=self.samples, every=self.every)
        require(self.samples >= 1, f"evaluation samples={self.samples}: score at least one sample.")
        require(self.every >= 0, f"evaluation every={self.every}: a number of steps, or 0 for the end alone.")
        require("train" not in self.sets, "a test set is called 'train', which is the training loss's own name.")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training run."""

    task: str
    model: nn.Architecture
    optimiser: Optimiser
    data: Data = field(default_factory=Data)
    evaluation: Evaluation = field(default_factory=Evaluation)
    task_options: Options = field(default_factory=dict)
    precision: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "task_options", frozen(self.task_options))
        tasks.get(self.task, **self.task_options)
        check_whole(seed=self.seed)
        require(
            isinstance(self.model, nn.Architecture),
            f"model is a {type(self.model).__name__}: pass what describes one, as posattn.nn.Positional(length=8).",
        )
        for name in ("encoding", "constants"):
            require(
                getattr(self.model, name, None) != GIVEN,
                f"{name}={GIVEN!r} of the model stands for a matrix, and a trial holds none: use an encoding's name.",
            )
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)

    @property
    def id(self) -> str:
        """Sixteen hex digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        fields: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name in ("optimiser", "data", "evaluation"):
            fields[name] = dataclasses.asdict(fields[name])
        fields["model"] = json.loads(self.model.to_json())
        return json.dumps(canonical(fields), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Trial":
        try:
            fields = frozen(json.loads(text))
            return cls(
                **fields
                | {
                    "model": nn.from_json(json.dumps(fields["model"])),
                    "optimiser": Optimiser(**fields["optimiser"]),
                    "data": Data(**fields["data"]),
                    "evaluation": Evaluation(**fields["evaluation"]),
                }
            )
        except (json.JSONDecodeError, TypeError, KeyError) as error:
            raise PosattnError(
                f"not the description of a trial ({error}): {text[:80]!r}. Trial.to_json writes one."
            ) from None


def frozen(value: Any) -> Any:
    """Lists become tuples, at any depth: what JSON gives back equals what was written."""
    if isinstance(value, Mapping):
        return {str(key): frozen(entry) for key, entry in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value


def canonical(value: Any) -> Any:
    """Equal numbers are written alike: 2.0 as 2."""
    if isinstance(value, Mapping):
        return {key: canonical(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def check_whole(**values: Any) -> None:
    for name, value in values.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        require(whole, f"{name}={value!r}: it must be a whole number.")
        require(abs(value) < 2**63, f"{name}={value}: it must lie below 2⁶³, which is as far as tensors count.")


def check_finite(**values: Any) -> None:
    for name, value in values.items():
        real = isinstance(value, (int, float)) and not isinstance(value, bool)
        require(real and math.isfinite(value), f"{name}={value!r}: it must be a finite number.")
