"""A trial: everything about one training run, as a value.

Its id is a hash of what in it differs from the defaults (`identity`), so two equal trials are the same run, on every
machine. Results, checkpoints and resume are keyed by it.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from posattn import checks, nn, tasks
from posattn.errors import PosattnError, kind_of, require, unknown
from posattn.nn.numeric_sizes import GIVEN
from posattn.train import identity
from posattn.train.runnable import Runnable, TaskSource
from posattn.train.sample_options import Options, TestSets, not_a_mapping, own_options, spelled_out, with_inherited
from posattn.train.task_hash import joined_hash, module_hash, source_hash
from posattn.train.trial_parts import Data, Evaluation, Optimiser

PRECISIONS = ("float32", "tf32", "bf16", "float64")


@identity.register
@dataclass(frozen=True, kw_only=True)
class Trial(Runnable):
    """One training run.

    `task_version` is the version of the task as it is registered, unless a trial of another one is described.
    """

    batched: ClassVar[bool] = True

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
        if not isinstance(self.model, nn.Architecture):
            fix = "pass what describes one, as posattn.nn.Positional(length=8)."
            raise PosattnError(f"model is {kind_of(self.model)}: {fix}")
        for name, kind in (("optimiser", Optimiser), ("data", Data), ("evaluation", Evaluation)):
            held = getattr(self, name)
            if not isinstance(held, kind):
                raise PosattnError(f"{name} is {kind_of(held)}: pass a posattn.train.{kind.__name__}.")
        identity.settle(self)
        if not isinstance(self.task_options, dict):
            raise not_a_mapping("task_options of the task", self.task_options)
        task = tasks.get(self.task, **self.task_options)
        object.__setattr__(self, "task_options", task.settled_options(self.task_options))
        if self.task_version is None:
            object.__setattr__(self, "task_version", task.version)
        checks.whole("seed", self.seed)
        version = checks.whole("task_version", self.task_version)
        require(version >= 1, f"task_version={version}: versions of a task count from 1.")
        for name in ("encoding", "constants"):
            require(
                getattr(self.model, name, None) != GIVEN,
                f"{name}={GIVEN!r} of the model stands for a matrix, and a trial holds none: use an encoding's name.",
            )
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)

    def __hash__(self) -> int:
        return hash(self.id)

    def differing(self) -> dict[str, Any]:
        """An option that a test set inherits may be spelled out or not."""
        differing = identity.reduced(self)
        if self.evaluation.sets:
            differing["evaluation"]["sets"] = own_options(self.evaluation.sets, self.data.options)
        return self._versioned(differing)

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

    def seeded(self, seed: int) -> "Trial":
        return replace(self, seed=seed)

    @cached_property
    def test_sets(self) -> TestSets:
        return with_inherited(self.evaluation.sets, self.data.options)

    @property
    def shown_steps(self) -> int:
        return self.optimiser.steps

    @property
    def title(self) -> str:
        return f"{self.model.label()} on {self.task}"

    @property
    def architecture(self) -> nn.Architecture:
        return self.model

    @property
    def task_source(self) -> TaskSource | None:
        own = {
            f"task '{self.task}'": source_hash(tasks.get(self.task, **self.task_options)),
            f"module '{self.model.label()}'": module_hash(self.model),
        }
        found = {what: held for what, held in own.items() if held is not None}
        return TaskSource(" and ".join(found), joined_hash(found.values())) if found else None
