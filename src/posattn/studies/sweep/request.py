"""What a sweep was asked for: a study, a space of settings, how it is searched, and how settings are judged."""

import hashlib
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace

from posattn import checks
from posattn.errors import require
from posattn.studies.core.case import Case
from posattn.studies.core.changed import changed_cases, check_own, check_reach
from posattn.studies.core.study import Study
from posattn.studies.sweep.search import BATCH, Search, searching
from posattn.studies.sweep.space import Space
from posattn.studies.sweep.validation import validated
from posattn.train.changes import apply, has_field
from posattn.train.runnable import Runnable

#: Seeds of each setting: a single run says more of its seed than of its setting.
SEEDS = 3
#: How often in a training fleets are looked at where they may stop early.
LOOKS = 8
#: Grids up to this size are checked combination by combination before anything starts.
CHECKED = 1000


#: Fields that say which samples a trial is judged by.
JUDGED = ("data.options", "evaluation", "task_options")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A sweep, checked. `search` is grid, random or optuna, the latter two with a `budget` of settings."""

    study: Study
    space: Space
    search: str = "grid"
    budget: int | None = None
    batch: int | None = None
    stop_early: bool = False
    preset: str = "quick"
    tasks: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    seeds: int = SEEDS

    def __post_init__(self) -> None:
        checks.instance("study", self.study, Study, fix="pass a study, as posattn.studies.get('ood-scale')")
        checks.instance("space", self.space, Space, fix="pass posattn.studies.sweep.parse(['optimiser.lr=1e-4,1e-3'])")
        tasks = checks.several("tasks", self.tasks, str, fix="give a tuple of task names")
        object.__setattr__(self, "tasks", tuple(dict.fromkeys(tasks)))
        checks.several("arms", self.arms, str, fix="give a tuple of the study's models, as its table names them")
        checks.keep_switches(self, "stop_early")
        checks.keep_whole(self, "seeds")
        more = "Use 2 at least, better 3 or more"
        require(self.seeds >= 2, f"seeds={self.seeds}: a setting is judged by the median over seeds. {more}.")

    def searching(self) -> Callable[[], Search]:
        """What makes the search; each case has one of its own."""
        batch = BATCH if self.batch is None and self.stop_early else self.batch
        return searching(self.search, self.space, budget=self.budget, batch=batch)

    def cases(self) -> list[Case]:
        """The cases that have one of the fields, with a validation set; every value of every field is tried on them."""
        every = self.study.chosen(self.tasks, self.preset, self.arms)
        check_own(dict.fromkeys(self.space.fields))
        for path in self.space.fields:
            require(
                not path.startswith(JUDGED),
                f"{path}: it would change the set that settings are judged by, and easier samples would win. Try its "
                "values one by one, posattn run --set.",
            )
        each = list(self.space.each())
        for setting in each:
            check_reach(every, setting)
        fields = [entry for setting in each for entry in setting.items()]
        trained = [case for case in every if case.trial.trained]
        reached = [case for case in trained if any(has_field(case.trial, path, value) for path, value in fields)]
        found = [replace(case, trial=self._prepared(case.trial)) for case in reached]
        together = self.space.settings() if (self.space.size or CHECKED + 1) <= CHECKED else []
        for setting in (*each, *together):  # values that are right one by one may not be together
            changed_cases(found, setting)
        return found

    def _prepared(self, trial: Runnable) -> Runnable:
        """The trial with a validation set, and with scores on the way where it may be stopped and has none."""
        trial = validated(trial)
        evaluation = getattr(trial, "evaluation", None)
        if not self.stop_early or evaluation is None or evaluation.every:
            return trial
        return apply(trial, {"evaluation.every": max(1, trial.shown_steps // LOOKS)})

    @property
    def command(self) -> str:
        """The command that gives the same sweep."""
        options = {
            "--set": self.space.words(),
            "--task": self.tasks,
            "--model": self.arms,
            "--option": [f"{name}={value}" for name, value in self.study.chosen_values.items()],
            "--preset": [self.preset],
            "--seeds": [str(self.seeds)],
            "--search": [] if self.search == "grid" else [self.search],
            "--budget": [] if self.budget is None else [str(self.budget)],
            "--batch": [] if self.batch is None else [str(self.batch)],
        }
        words = [word for option, values in options.items() for value in values for word in (option, value)]
        return shlex.join(["posattn", "sweep", self.study.name, *words, *["--stop-early"] * self.stop_early])

    @property
    def name(self) -> str:
        """What its files are called: the study, the fields, and a hash of all that was asked for."""
        fields = re.sub(r"[^a-z0-9_.+-]+", "-", "+".join(self.space.fields).lower())[:60]
        return f"{self.study.name}+sweep+{fields}-{hashlib.sha256(self.command.encode()).hexdigest()[:8]}"
