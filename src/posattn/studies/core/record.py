"""What a study was asked for: which preset and options, which tasks, how many seeds of each model.

It says which trials a report looks for: it shows those of them that the store has, and no others that lie there. Tasks,
models and seeds may be added one by one, and the record holds them together. Another preset or other options begin a
new record; an option that concerns some models only begins those anew. A study whose trials were changed has a record
of its own beside the unchanged one, under a name that says what was changed.
"""

import json
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from posattn.engine import Store
from posattn.errors import PosattnError, require
from posattn.files import make_folder, write_whole
from posattn.studies.core.study import Study, get
from posattn.train import changes

#: Raised when older versions can no longer read a record. Format 4 knew no changes; format 3, besides, kept option gpt2
#: in a field `language_model` of its own; format 2, besides, knew fewer options (`Choice.formerly`).
FORMAT = 5


@dataclass(frozen=True, kw_only=True)
class Record:
    """One study as it was run."""

    study: str
    preset: str
    tasks: tuple[str, ...]
    choices: dict[str, str] = field(default_factory=dict)  # options that are not at their defaults
    seeds: dict[str, int] = field(default_factory=dict)  # by arm, the most that were asked for
    left_out: dict[str, str] = field(default_factory=dict)  # arms that could not be run, and why
    changes: dict[str, Any] = field(default_factory=dict)  # fields of the trials that are not as the study has them

    @property
    def name(self) -> str:
        """What its file and its report are called."""
        return name_of(self.study, self.changes)

    def joined(self, older: "Record | None", *, concerning: Mapping[str, Collection[str]] = {}) -> "Record":
        """This record and what an older one has besides, where both are of the same preset and options.

        `concerning` has the options that concern some arms only, with those arms: where this record does not give one,
        it stays the older one's; where it gives another value, nothing is left of those arms.
        """
        if older is None or self._common(concerning) != older._common(concerning):
            return self
        choices = {name: value for name, value in older.choices.items() if name in concerning} | self.choices
        changed = [name for name in concerning if choices.get(name) != older.choices.get(name)]
        gone = {arm for name in changed for arm in concerning[name]}
        seeds = {arm: count for arm, count in older.seeds.items() if arm not in gone}
        seeds |= {arm: max(count, seeds.get(arm, 0)) for arm, count in self.seeds.items()}
        left_out = {arm: why for arm, why in older.left_out.items() if arm not in gone} | self.left_out
        left_out = {arm: why for arm, why in left_out.items() if arm not in seeds}
        tasks = tuple(dict.fromkeys((*older.tasks, *self.tasks))) if older.tasks and self.tasks else ()
        return replace(self, tasks=tasks, choices=choices, seeds=seeds, left_out=left_out)

    def _common(self, concerning: Collection[str]) -> tuple[Any, ...]:
        """What must agree for two records to be of the same run."""
        choices = {name: held for name, held in self.choices.items() if name not in concerning}
        return self.study, self.preset, choices, self.changes

    def commands(self, study: Study, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
        """The commands that give so many seeds of each model, by task: one for all tasks and models that are alike."""
        alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for task, models in counts.items():
            alike.setdefault(tuple(models.items()), []).append(task)
        options = [word for name, value in self.choices.items() for word in ("--option", f"{name}={value}")]
        # A study from a file of its user's needs that file.
        plugin = getattr(sys.modules.get(type(study).__module__), "__plugin__", None)
        options += [] if plugin is None else ["--plugin", plugin]
        options += [word for path, value in self.changes.items() for word in ("--set", changes.written(path, value))]
        found = []
        for models, tasks in alike.items():
            every = {case.arm for task in tasks for case in study.cases_of(task, self.preset)}
            named = [] if set(tasks) == set(study.tasks) else [word for task in tasks for word in ("--task", task)]
            for count in dict.fromkeys(count for _, count in models):
                arms = [arm for arm, seeds in models if seeds == count]
                only = [] if set(arms) == every else [word for arm in arms for word in ("--model", arm)]
                words = ["posattn", "run", self.study, *named, *only, "--preset", self.preset, "--seeds", str(count)]
                found.append(shlex.join([*words, *options]))
        return found


def name_of(study: str, changed: changes.Changes) -> str:
    """What the record of a study is called, as ood-scale, or ood-scale+optimiser.lr=0.001 where that was changed."""
    return f"{study}+{changes.name(changed)}" if changed else study


def path_of(store: Store, name: str) -> Path:
    return store.folder / "studies" / f"{name}.json"


def recorded(store: Store) -> list[str]:
    """The names of the records below a folder: the studies that were run, changed or not."""
    return sorted(path.stem for path in (store.folder / "studies").glob("*.json"))


def write(store: Store, record: Record) -> None:
    path = path_of(store, record.name)
    make_folder(path.parent)
    write_whole(path, json.dumps({"format": FORMAT} | asdict(record)).encode())


def read(store: Store, name: str, *, replacing: bool = False) -> Record | None:
    """The record of that name, of a study's last run, if there was one.

    One that cannot be read is an error, or, where it is about to be replaced, as good as none.
    """
    path = path_of(store, name)
    if not path.is_file():
        return None
    try:
        held = json.loads(path.read_bytes())
        newer = isinstance(held["format"], int) and held["format"] > FORMAT
        found = None if newer else _record(held)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if replacing:
            return None
        study, changed, _ = name.partition("+")
        again = f"posattn run {study}{' with the same --set' if changed else ''}"
        raise PosattnError(
            f"'{path}' cannot be read ({error}): run the study again, {again}, what is finished is kept."
        ) from None
    require(not newer or replacing, f"'{path}' was written by a newer version of posattn: install that version.")
    return found


def _record(held: dict[str, Any]) -> Record:
    """What `write` has written; an error where it is anything else."""
    written = held.pop("format")
    if written not in (2, 3, 4, FORMAT):
        raise ValueError(f"it has format {written}, this version writes {FORMAT}")
    if written < 4:
        _update(held, written)
    held["tasks"] = tuple(held["tasks"])
    held["changes"] = changes.settled(held.get("changes", {}))
    found = Record(**held)
    counts = list(found.seeds.values())
    if not counts or not all(isinstance(count, int) and count >= 1 for count in counts):
        raise ValueError("it gives no model a number of seeds")
    if not isinstance(found.left_out, dict):
        raise ValueError("it does not say why models were left out")
    if not isinstance(found.choices, dict):
        raise ValueError("it does not say what was chosen")
    return found


def _update(held: dict[str, Any], written: int) -> None:
    """Bring what an older version has written to this format."""
    choices = held.get("choices") or {}
    if written == 2:
        offered = get(held["study"]).choices
        before = {name: one.formerly for name, one in offered.items() if one.formerly is not None}
        choices = before | choices
    language_model = held.pop("language_model", None)
    held["choices"] = choices if language_model is None else choices | {"gpt2": language_model}
