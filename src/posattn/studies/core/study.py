"""What a study is: a question, the trials that answer it, and what it shows of them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, TypeVar

from posattn import checks
from posattn.errors import PosattnError, kind_of, require, unknown
from posattn.studies.core.case import Case
from posattn.studies.core.changed import Change, changed_cases, check_own, check_reach, described
from posattn.studies.core.choices import Choice
from posattn.studies.core.points import Point
from posattn.studies.core.views import View
from posattn.train.changes import Changes, settled

PRESETS = {
    "smoke": "seconds: shows that everything runs",
    "quick": "minutes on two CPU cores: shows the effect",
    "paper": "the paper's protocol to the letter",
}


class Study(ABC):
    """A question, and the trials that answer it.

    `values` are its options that are not at their defaults, `changes` the fields of its trials that are not as the
    study has them.
    """

    name: ClassVar[str]
    question: ClassVar[str]
    answers: ClassVar[str]  # the published figure …
    paper: ClassVar[str] = "Back de Luca et al. 2025 (arXiv 2410.01686)"  # … and whose
    view: ClassVar[View]
    cost: ClassVar[Mapping[str, str]]  # by preset
    seeds: ClassVar[Mapping[str, int]] = {"smoke": 2, "quick": 1, "paper": 10}
    tasks: ClassVar[tuple[str, ...]]
    notes: ClassVar[tuple[str, ...]] = ()  # corrections and deviations, printed under every table
    choices: ClassVar[Mapping[str, Choice]] = {}

    def __init__(self, values: Mapping[str, str] | None = None, changes: Changes | None = None) -> None:
        self.chosen_values = dict(values or {})
        self.changes = settled(changes or {})
        self._cases: dict[tuple[str, str], list[Case]] = {}
        self._unchanged: dict[tuple[str, str], list[Case]] = {}

    @abstractmethod
    def cases(self, task: str, preset: str) -> list[Case]:
        """Make the cases of one task."""

    def cases_of(self, task: str, preset: str) -> list[Case]:
        """The cases of one task as they are run, made once."""
        if (task, preset) not in self._cases:
            made = self.cases(task, preset)
            changed = changed_cases(made, self.changes) if self.changes else made
            self._cases[task, preset], self._unchanged[task, preset] = changed, made
        return self._cases[task, preset]

    def _before(self, preset: str) -> list[Case]:
        """All cases of all tasks as they are without the changes."""
        for task in self.tasks:
            self.cases_of(task, preset)
        return [case for task in self.tasks for case in self._unchanged[task, preset]]

    def chosen(self, tasks: tuple[str, ...], preset: str, arms: tuple[str, ...] = ()) -> list[Case]:
        """The cases of some tasks and some arms (none: all of the study's)."""
        checks.choice("preset", preset, PRESETS)
        for task in tasks:
            checks.choice(f"task of study '{self.name}'", task, self.tasks)
        if self.changes:  # in all tasks: a mistake must not be found when some are trained
            check_reach(self._before(preset), self.changes)
        cases = [case for task in tasks or self.tasks for case in self.cases_of(task, preset)]
        known = list(dict.fromkeys(case.arm for case in cases))
        for arm in arms:
            if arm not in known:
                raise unknown(f"model of study '{self.name}', preset {preset}", arm, known)
        return [case for case in cases if not arms or case.arm in arms]

    def seed_count(self, preset: str, wanted: int | None) -> int:
        """How many seeds to run: as many as are wanted, or the preset's."""
        if wanted is None:
            return self.seeds[preset]
        require(checks.whole("seeds", wanted) >= 1, f"seeds={wanted}: run at least one.")
        return int(wanted)

    def choosing(self, values: Mapping[str, str]) -> "Study":
        """The same study with some options chosen."""
        return self.recalled({name: self._option(name, value).asked(name, value) for name, value in values.items()})

    def recalled(self, values: Mapping[str, str]) -> "Study":
        """The same for options that were chosen before: a folder that was asked for then may be gone now."""
        for name, value in values.items():
            self._option(name, value).allowed(name, value)
        chosen = {name: value for name, value in values.items() if value != self.choices[name].default}
        return self if chosen == self.chosen_values else type(self)(chosen, self.changes)

    def setting(self, changes: Changes) -> "Study":
        """The same study with fields of its trials changed, by dotted path: `setting({"optimiser.lr": 1e-3})`.

        Its results are kept apart from those of the unchanged study. Arms without such a field stay as they are.
        """
        found = settled(changes)
        check_own(found)
        return self if found == self.changes else type(self)(self.chosen_values, found)

    def described_changes(self, preset: str, arms: Collection[str]) -> list[Change]:
        """What is changed of these arms, beside what it was."""
        if not self.changes:
            return []
        return described([case for case in self._before(preset) if case.arm in arms], self.changes)

    def _option(self, name: str, value: str) -> Choice:
        if name not in self.choices:
            nothing = f"option {name}={value}: study '{self.name}' leaves nothing to choose, leave it out."
            require(bool(self.choices), nothing)
            raise unknown(f"option of study '{self.name}'", name, self.choices)
        return self.choices[name]

    def choice(self, name: str) -> str:
        """What was chosen, or the default."""
        return self.chosen_values.get(name, self.choices[name].default)

    def sentence(self, points: Sequence[Point]) -> str:
        """The answer to the question in one sentence, from the points."""
        return self.view.sentence(points)

    def remarks(self) -> list[str]:
        """What has to be said under every table of the study."""
        return list(self.notes)


REGISTRY: dict[str, Study] = {}
S = TypeVar("S", bound=Study)


#: What a study's class must say.
SAID = ("name", "question", "answers", "view", "cost", "tasks")


def register(study: type[S]) -> type[S]:
    """Make a study known by its name, as a decorator of its class. A user's may be registered again."""
    if not isinstance(study, type) or not issubclass(study, Study):
        raise PosattnError(f"study is {kind_of(study)}, {study!r:.60}: decorate a class derived from Study.")
    missing = [*(name for name in SAID if not hasattr(study, name)), *sorted(study.__abstractmethods__)]
    named = f"study class {study.__name__}"
    require(not missing, f"{named} lacks {', '.join(missing)}: write it, as the file of `posattn new study` does.")
    checks.text("name", study.name)
    for preset in PRESETS:
        require(preset in study.cost, f"study '{study.name}': cost has no {preset}. Add '{preset}': 'seconds'.")
    held = REGISTRY.get(study.name)
    if held is not None and (_is_ours(type(held)) or _is_ours(study)):
        if _is_ours(study):
            raise PosattnError(f"two studies are called '{study.name}'.")
        raise PosattnError(f"name='{study.name}' is a study of posattn's own: choose another name.")
    REGISTRY[study.name] = study()
    return study


def _is_ours(study: type[Study]) -> bool:
    return study.__module__.startswith("posattn.")


def get(name: str) -> Study:
    """The study called `name`."""
    return REGISTRY[checks.choice("study", name, REGISTRY)]
