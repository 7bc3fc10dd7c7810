"""What a worker is told: trials and how to run them, as text, and what it needs of the user's code."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posattn import tasks
from posattn.engine.early_stop import EarlyStop
from posattn.errors import PosattnError
from posattn.train import Evaluation, identity
from posattn.train.runnable import Runnable
from posattn.train.sample_options import TestSets
from posattn.version import __version__


@dataclass(frozen=True, kw_only=True)
class Job:
    """One fleet, or one trial that runs by itself."""

    trials: list[str]  # as JSON, and …
    test_sets: list[list[str]]  # … the names of their test sets in their order, which JSON does not keep
    device: str
    threads: int
    checkpoint_every: float
    together: bool
    early_stop: dict[str, Any] | None = None
    modules: list[str] = field(default_factory=list)  # whose import makes tasks and kinds of trials known
    plugins: dict[str, str] = field(default_factory=dict)  # the text of users' files by the name of their module
    folder: str = ""  # where the command runs: users' modules may lie there
    version: str = __version__

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, trials: Sequence[Runnable], **given: Any) -> "Job":
        names = [[one.name for one in trial.test_sets] for trial in trials]
        return cls(trials=[trial.to_json() for trial in trials], test_sets=names, **given)

    @classmethod
    def from_json(cls, text: str) -> "Job":
        return cls(**json.loads(text))

    def read(self) -> list[Runnable]:
        """The trials, once their kinds and tasks are known."""
        found = zip(map(identity.read, self.trials), self.test_sets, strict=True)
        return [_in_order(trial, names) for trial, names in found]


def _in_order(part: Any, names: list[str]) -> Any:
    """A trial, or a part of one, with its test sets in this order: scores are kept in it."""
    changed: dict[str, Any] = {}
    for one in dataclasses.fields(part):
        held = getattr(part, one.name)
        if isinstance(held, TestSets):
            changed[one.name] = TestSets(sorted(held, key=lambda found: names.index(found.name)))
        elif isinstance(held, Evaluation):
            changed[one.name] = _in_order(held, names)
    return dataclasses.replace(part, **changed) if changed else part


def early_stop_fields(stop: EarlyStop | None, trials: Sequence[Runnable]) -> dict[str, Any] | None:
    """What of the limits concerns these trials, for JSON."""
    if stop is None:
        return None
    ids = {trial.seeded(0).id for trial in trials}
    return {"test_set": stop.test_set, "limits": {name: dict(stop.limits[name]) for name in ids if name in stop.limits}}


def early_stop_of(fields: Mapping[str, Any] | None) -> EarlyStop | None:
    """The same back from JSON, whose names are text."""
    if fields is None:
        return None
    limits = {name: {int(step): loss for step, loss in some.items()} for name, some in fields["limits"].items()}
    return EarlyStop(fields["test_set"], limits)


def plugins() -> dict[str, str]:
    """The text of every file of the user's that was loaded, by the name of its module."""
    loaded = {name: module for name, module in sys.modules.items() if "__plugin__" in vars(module)}
    return {name: Path(str(module.__file__)).read_text() for name, module in loaded.items()}


def modules(trials: Iterable[Runnable]) -> list[str]:
    """The modules that define kinds of trials and tasks; of ours all are known where posattn is installed."""
    found: set[str] = set()
    for trial in trials:
        found.add(type(trial).__module__)
        task = tasks.REGISTRY.get(getattr(trial, "task", ""))
        held = [] if task is None else [type(task), *vars(task).values()]
        for one in held:
            module = getattr(one, "__module__", None)
            if callable(one) and isinstance(module, str):
                found.add(module)
        if "__main__" in found:
            raise PosattnError(
                f"task '{getattr(trial, 'task', '')}' is defined in the script that runs, which no worker can import: "
                "move it into a file of its own, and load that, posattn.plugins.load('mine.py') or --plugin mine.py."
            )
    return sorted(found - set(plugins()) - {"builtins", "torch", "_operator"})
