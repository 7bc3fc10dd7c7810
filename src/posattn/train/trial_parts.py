"""The parts of a trial: what it is trained on, how its weights change, and what it is tested on."""

from dataclasses import dataclass, field

from posattn import checks
from posattn.errors import require, unknown
from posattn.train import identity
from posattn.train.sample_options import BY_NAME, Options, Sets, named, not_a_mapping

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
        if not isinstance(self.options, dict):
            raise not_a_mapping("options of the data", self.options)
        require(isinstance(self.lengths, tuple), f"lengths={self.lengths!r}: give a list of whole numbers.")
        checks.whole("samples", self.samples)
        checks.whole("batch", self.batch)
        for length in self.lengths:
            checks.whole("length", length)
        checks.switch("fresh", self.fresh)
        require(self.batch >= 1, f"batch={self.batch}: a batch has at least one sample.")
        require(
            self.batch <= self.share,
            f"batch={self.batch} is larger than the data: samples={self.samples}"
            + (f" over {len(self.lengths)} lengths leave {self.share} for each." if self.lengths else ".")
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
        for name in ("steps", "warmup", "patience"):
            checks.whole(name, getattr(self, name))
        for name in ("lr", "factor", "floor", "decay_from", "eps", "momentum", "weight_decay"):
            checks.real(name, getattr(self, name))
        require(self.steps >= 1, f"steps={self.steps}: train for at least one step.")
        require(self.lr > 0, f"lr={self.lr}: a learning rate is above 0.")
        require(0 <= self.warmup <= self.steps, f"warmup={self.warmup}: it must lie in 0 … steps={self.steps}.")
        require(0 <= self.decay_from < 1, f"decay_from={self.decay_from}: it is a share of all steps, in [0, 1).")
        require(0 < self.factor < 1, f"factor={self.factor}: what a schedule shrinks the rate by lies in (0, 1).")
        for name in ("patience", "floor", "weight_decay"):
            require(getattr(self, name) >= 0, f"{name}={getattr(self, name)}: it is 0 or more.")
        require(isinstance(self.betas, tuple), f"betas={self.betas!r}: give two numbers.")
        for at, beta in enumerate(self.betas):
            checks.real(f"betas[{at}]", beta)
        require(
            len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas),
            f"betas={self.betas}: Adam keeps two running means, each with a share in [0, 1) of what it was.",
        )
        require(0 <= self.momentum < 1, f"momentum={self.momentum}: a share of the last step, in [0, 1).")
        require(self.eps > 0, f"eps={self.eps}: it keeps Adam from dividing by 0, so above 0.")
        positive = self.clip is None or checks.real("clip", self.clip) > 0
        require(positive, f"clip={self.clip}: a norm to clip at is above 0.")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Test sets: `samples` of each, scored at the end; with `every` also before the first step and every so many steps.

    A set inherits the options of the training data and names those that are different: `{"far": {"high": 6.0}}`, which
    is short for `(TestSet("far", {"high": 6.0}),)`.
    """

    samples: int = 1000
    sets: Sets = field(default=(), metadata=BY_NAME)
    every: int = 0

    def __post_init__(self) -> None:
        identity.settle(self)
        checks.whole("samples", self.samples)
        checks.whole("every", self.every)
        require(self.samples >= 1, f"evaluation samples={self.samples}: score at least one sample.")
        require(self.every >= 0, f"evaluation every={self.every}: a number of steps, or 0 for the end alone.")
        own = all(one.name != "train" for one in named(self.sets))
        require(own, "a test set is called 'train', which is the training loss's own name: rename it.")
