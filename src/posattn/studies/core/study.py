"""What a study is: which trials answer which question, and what was published for them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from posattn import checks, published
from posattn.errors import PosattnError, require, unknown
from posattn.train.runnable import Runnable

#: Among the values of a choice: any number above 0.
NUMBER = "a number"

PRESETS = {
    "smoke": "seconds: shows that everything runs",
    "quick": "minutes on two CPU cores: shows the effect",
    "paper": "the paper's protocol to the letter",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One trained thing of a study, to be repeated over seeds.

    `arm` names its curve. `x` is its place on the study's axis where that is a matter of training (samples, length);
    where it is None, the axis is the scale c of the test sets. `reference` are the published figure's columns, and
    `divisor` what its test losses must be divided by to be comparable (a note of the study says why).
    """

    task: str
    arm: str
    trial: Runnable
    x: float | None = None
    reference: Mapping[str, Any] = field(default_factory=dict)
    divisor: float = 1.0

    def seeded(self, seed: int) -> Runnable:
        """The trial of one seed, made once: its id is asked for again and again."""
        made = self.__dict__.setdefault("_seeded", {})
        if seed not in made:
            made[seed] = self.trial.seeded(seed)
        return made[seed]

    @property
    def test_sets(self) -> list[str]:
        return [one.name for one in self.trial.test_sets]

    def published(self, test_set: str) -> list[float]:
        """Published figures for one of the case's test sets, one a run."""
        where = dict(self.reference)
        if not where:
            return []
        if where["experiment"] == "khop16":
            return published.khop_accuracy(where["layers"], test_set)
        found = published.losses(task=self.task, test_set=test_set, **where)
        return found if test_set == "validation" else [loss / self.divisor for loss in found]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture of a study that follows its trials through training: a score over the steps."""

    title: str
    score: str  # its name in the store
    inverse: bool = False  # 1/score
    log: bool = True
    log_steps: bool = False
    level: float | None = None  # a published level, drawn as a line
    level_label: str = ""


class Study(ABC):
    """A question, and the trials that answer it."""

    name: ClassVar[str]
    question: ClassVar[str]
    answers: ClassVar[str]  # the published figure …
    paper: ClassVar[str] = "Back de Luca et al. 2025 (arXiv 2410.01686)"  # … and whose
    axis: ClassVar[str]  # what x is
    cost: ClassVar[Mapping[str, str]]  # by preset
    seeds: ClassVar[Mapping[str, int]] = {"smoke": 2, "quick": 1, "paper": 10}
    tasks: ClassVar[tuple[str, ...]]
    metric: ClassVar[str] = "loss"  # which score of the store the tables and figures show …
    measure: ClassVar[str] = "loss"  # … and what it is called there
    figures: ClassVar[tuple[str, ...]] = ()  # what `derive` gives, where the scores are not what is shown
    drawn: ClassVar[tuple[str, ...]] = ()  # which of them the picture shows; none: all
    levels: ClassVar[Mapping[str, tuple[float, str]]] = {}  # published ones, with what they are, by panel
    notes: ClassVar[tuple[str, ...]] = ()  # corrections and deviations, printed under every table
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # what no source settles: values or NUMBER, the default first
    formerly: ClassVar[Mapping[str, str]] = {}  # what stood for a choice before there was one, in records of format 2
    chosen_values: Mapping[str, str] = {}  # those that were chosen otherwise
    language_model: str | None = None  # for a study that can fine-tune one: its name or folder, where not the preset's

    def using(self, language_model: str) -> "Study":
        """The same study with another language model."""
        raise PosattnError(
            f"--gpt2 {language_model}: study '{self.name}' fine-tunes no language model, mixed-type does."
        )

    def choosing(self, values: Mapping[str, str]) -> "Study":
        """The same study with some choices made otherwise."""
        for name, value in values.items():
            if name not in self.choices:
                nothing = f"option {name}={value}: study '{self.name}' leaves nothing to choose, leave it out."
                require(bool(self.choices), nothing)
                raise unknown(f"option of study '{self.name}'", name, self.choices)
            if value not in self.choices[name] and not (NUMBER in self.choices[name] and _positive(value)):
                raise unknown(f"value of option {name}", value, self.choices[name])
        study = copy(self)
        vars(study).pop("_cases", None)
        study.chosen_values = {name: value for name, value in values.items() if value != self.choices[name][0]}
        return study

    def choice(self, name: str) -> str:
        """What was chosen, or the default."""
        return self.chosen_values.get(name, self.choices[name][0])

    def panels(self, preset: str) -> tuple[Panel, ...]:
        """The scores that are followed through training, for a study that shows them; else none."""
        return ()

    def places(self, case: Case, test_set: str) -> list[tuple[str, float]]:
        """The panels, and the places on their axes, of a test set's final score."""
        if case.x is not None:
            return [(case.task, case.x)]
        # A validation set lies beside c = 1: in tables at 0, and not drawn.
        return [(case.task, float(test_set.removeprefix("c=")) if test_set.startswith("c=") else 0.0)]

    def remarks(self) -> list[str]:
        """What has to be said under every table of the study."""
        return list(self.notes)

    @abstractmethod
    def cases(self, task: str, preset: str) -> list[Case]:
        """The cases of one task."""

    def cases_of(self, task: str, preset: str) -> list[Case]:
        """`cases`, worked out once for each task and preset."""
        made = vars(self).setdefault("_cases", {})
        if (task, preset) not in made:
            made[task, preset] = self.cases(task, preset)
        return made[task, preset]

    def derive(self, case: Case, rows: list[dict[str, Any]], weights: Path) -> Mapping[str, float]:
        """Figures of a finished trial, from its last scores and its weights, for a study that shows no scores."""
        raise NotImplementedError

    def chosen(self, tasks: tuple[str, ...], preset: str, arms: tuple[str, ...] = ()) -> list[Case]:
        """The cases of some tasks and some arms (none: all of the study's)."""
        checks.choice("preset", preset, PRESETS)
        for task in tasks:
            checks.choice(f"task of study '{self.name}'", task, self.tasks)
        cases = [case for task in tasks or self.tasks for case in self.cases_of(task, preset)]
        known = list(dict.fromkeys(case.arm for case in cases))
        for arm in arms:
            if arm not in known:
                raise unknown(f"model of study '{self.name}', preset {preset}", arm, known)
        return [case for case in cases if not arms or case.arm in arms]

    def arms(self, tasks: tuple[str, ...], preset: str) -> list[str]:
        """The models of some tasks (none: all of the study's), each once."""
        return list(dict.fromkeys(case.arm for case in self.chosen(tasks, preset)))

    def seed_count(self, preset: str, wanted: int | None) -> int:
        if wanted is None:
            return self.seeds[preset]
        require(checks.whole("seeds", wanted) >= 1, f"seeds={wanted}: run at least one.")
        return int(wanted)


REGISTRY: dict[str, Study] = {}


def _positive(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


S = TypeVar("S", bound=Study)


def register(study: type[S]) -> type[S]:
    """Make a study known by its name."""
    if study.name in REGISTRY:
        raise PosattnError(f"two studies are called '{study.name}'.")
    REGISTRY[study.name] = study()
    return study


def get(name: str) -> Study:
    """The study called `name`."""
    return REGISTRY[checks.choice("study", name, REGISTRY)]
