"""A study with fields of its trials changed: which cases that reaches, and where it would make their names wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from posattn.errors import PosattnError, require
from posattn.studies.core.case import Case
from posattn.train import identity
from posattn.train.changes import Changes, apply, as_options, has_field, written

#: What no change of a study reaches.
FIXED = "evaluation.sets"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One field of a study's trials: its value now, the values before with the arms that had each, and other arms."""

    path: str
    value: Any
    before: dict[str, list[str]]
    without: list[str]

    def __str__(self) -> str:
        """As in: optimiser.lr=0.001 (study: 0.0005); “compiled” has no such field and stays as it is."""
        if len(self.before) == 1:
            values = next(iter(self.before))
        else:
            values = "; ".join(f"{value} of {_quoted(arms)}" for value, arms in self.before.items())
        found = f"{written(self.path, self.value)} (study: {values})"
        if not self.without:
            return found
        verbs = "has no such field and stays as it is" if len(self.without) == 1 else "have no such field and stay"
        return f"{found}; {_quoted(self.without)} {verbs}"


def _quoted(arms: Sequence[str]) -> str:
    return ", ".join(f"“{arm}”" for arm in arms)


def check_own(changes: Changes) -> None:
    """Test sets are the study's own: its points have their names and stand at their places."""
    for path in changes:
        require(
            not f"{path}.".startswith(f"{FIXED}."),
            f"--set {path}: the study's tables and figures are made of its test sets. Change the data instead, or "
            "test on others with posattn train.",
        )


def changed_cases(cases: Sequence[Case], changes: Changes) -> list[Case]:
    """The cases of one task, each with those changes whose field its trial has."""
    for path, value in changes.items():
        _check_axis(cases, path, value)
    found = [replace(case, trial=_changed(case, changes)) for case in cases]
    _check_apart(cases, found, changes)
    return found


def _changed(case: Case, changes: Changes) -> Any:
    try:
        return apply(case.trial, {path: value for path, value in changes.items() if has_field(case.trial, path, value)})
    except PosattnError as error:
        raise PosattnError(f"{case.arm} on {case.task}: {error}") from None


def _check_axis(cases: Sequence[Case], path: str, value: Any) -> None:
    """A field that is the axis of a curve cannot have one value."""
    curves: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        curves.setdefault((case.task, case.arm), []).append(case)
    for (task, arm), curve in curves.items():
        places = [case.x for case in curve]
        require(
            len(set(places)) < 2 or places != [_held(case, path) for case in curve],
            f"{as_options({path: value})}: {path} is the axis of {arm} on {task}, {_listed(places)}. Set another "
            "field.",
        )


def _check_apart(before: Sequence[Case], after: Sequence[Case], changes: Changes) -> None:
    """Cases that were different trials must stay so: else one result would stand under two names."""
    first: dict[str, int] = {}
    for index, case in enumerate(after):
        other = first.setdefault(case.trial.id, index)
        require(
            before[other].trial.id == before[index].trial.id,
            f"{as_options(changes)}: '{_named(after[other])}' and '{_named(case)}' would be the same trial under two "
            "names, as they differ in nothing else. Set another field.",
        )


def _named(case: Case) -> str:
    return f"{case.arm} on {case.task}" + ("" if case.x is None else f" at {case.x:g}")


def _listed(places: Sequence[float | None]) -> str:
    return ", ".join(f"{place:g}" for place in places if place is not None)


def check_reach(cases: Sequence[Case], changes: Changes) -> None:
    """Every change must reach one of a study's cases, as they were before."""
    for path, value in changes.items():
        if not any(has_field(case.trial, path, value) for case in cases):
            nearest = min(cases, key=lambda case: not case.trial.trained)
            apply(nearest.trial, {path: value})  # which says so


def described(cases: Sequence[Case], changes: Changes) -> list[Change]:
    """Every change, beside what the cases had before."""
    found = []
    for path, value in changes.items():
        before: dict[str, list[str]] = {}
        without: list[str] = []
        for case in cases:
            reached = has_field(case.trial, path, value)
            arms = before.setdefault(_before(case, path), []) if reached else without
            if case.arm not in arms:
                arms.append(case.arm)
        found.append(Change(path=path, value=value, before=before, without=without))
    return found


def _before(case: Case, path: str) -> str:
    held = _held(case, path)
    return "unset" if held is UNSET else written("", held)[1:]


UNSET = object()


def _held(case: Case, path: str) -> Any:
    """What a case's trial has in a field, by the names that tables show; a model's options count as its fields."""
    _, held = identity.loads(case.trial.to_json())
    for name in path.split("."):
        inner = held if isinstance(held, dict) else {}
        options = inner.get("options")
        held = inner.get(name, options.get(name, UNSET) if isinstance(options, dict) else UNSET)
    return held
