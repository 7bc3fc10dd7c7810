"""Changes of a protocol: fields of a trial by dotted path, and the value that each is to have.

`posattn train sum --set optimiser.lr=1e-3 --set model.layers=6` is, in Python:

    apply(trial, parse(["optimiser.lr=1e-3", "model.layers=6"]))
    apply(trial, {"optimiser.lr": 1e-3, "model.layers": 6})

The trial that comes out is the one that would be written by hand, with the same id. All changes are made at once, so
samples and batch may both shrink. A test set inherits what it does not set differently from the training data, so it
follows where an option of the data is changed.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import Any, TypeVar, cast

from posattn import tasks
from posattn.errors import NoSuchField, PosattnError, kind_of, require, unknown
from posattn.nn import Architecture
from posattn.tasks.base import sample_options
from posattn.train import identity
from posattn.train.language.trial import FIELDS, LanguageTrial
from posattn.train.runnable import Runnable
from posattn.train.sample_options import frozen, own_options
from posattn.train.trial import Trial

T = TypeVar("T", bound=Runnable)
Changes = Mapping[str, Any]
#: Changes below one part of a trial: what is left of each path, with its value.
Below = Mapping[tuple[str, ...], Any]

#: Fields of a trial that something else chooses.
ELSEWHERE = {
    "seed": "a protocol has many seeds: say how many with --seeds N (in Python, seeds=N)",
    "task": "a change leaves the task as it is: name another one in its own place",
    "task_version": "it is the version of the task that is registered",
}
#: Python's spelling of what JSON writes otherwise.
NOT_JSON = {"True": "true", "False": "false", "None": "null"}
#: The longest name of a folder that spells out its changes.
LONGEST_NAME = 80


def parse(given: Iterable[str]) -> dict[str, Any]:
    """FIELD=VALUE, …; a value is JSON or a bare word.

    >>> parse(["optimiser.lr=1e-3", "optimiser.name=sgd", "data.lengths=[8,16]", "optimiser.clip=null"])
    {'data.lengths': (8, 16), 'optimiser.clip': None, 'optimiser.lr': 0.001, 'optimiser.name': 'sgd'}
    """
    found: dict[str, Any] = {}
    for text in given:
        path, equals, value = text.partition("=")
        require(bool(equals), f"--set {text}: write FIELD=VALUE, as optimiser.lr=1e-3.")
        require(path not in found, f"--set {text}: {path} was set before. Set it once.")
        found[path] = _value(text, value)
    return settled(found)


def _value(text: str, value: str) -> Any:
    """The value of FIELD=VALUE. JSON has no comma outside brackets and quotes, so one there parts several values."""
    try:
        return json.loads(value, parse_constant=str)  # NaN and Infinity are words: no field may have them
    except (ValueError, RecursionError):
        pass
    if len(pieces(value)) > 1:
        raise PosattnError(
            f"--set {text}: several values. A field has one value here: run the command once for each, try them all "
            f"with posattn sweep, or write a list as [{value}]."
        )
    require(value != "", f"--set {text}: give a value, as optimiser.lr=1e-3, or null for none.")
    broken = value[0] in '[{"'
    require(not broken, f"--set {text}: {value} is not JSON. Quote it for the shell, as 'data.lengths=[8,16]'.")
    require(value not in NOT_JSON, f"--set {text}: values are JSON, write {NOT_JSON.get(value)}.")
    return value


def pieces(value: str) -> list[str]:
    """A value's text, cut at the commas outside brackets and quotes.

    >>> pieces("1e-3,[8,16],sgd")
    ['1e-3', '[8,16]', 'sgd']
    """
    depth, cuts = 0, [-1]
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[][{},]', value):
        depth += (found[0] in "[{") - (found[0] in "]}")
        if found[0] == "," and depth == 0:
            cuts.append(found.start())
    return [value[start + 1 : end] for start, end in zip(cuts, [*cuts[1:], len(value)], strict=True)]


def settled(changes: Changes) -> dict[str, Any]:
    """Changes in one order and form, all of fields that may change: equal ones are equal, whoever wrote them."""
    if not isinstance(changes, Mapping):
        raise PosattnError(f"changes are {kind_of(changes)}: give values by field, as {{'optimiser.lr': 1e-3}}.")
    for path in changes:
        is_path = isinstance(path, str) and all(path.split("."))
        require(is_path, f"--set {path}=…: write the field as a dotted path, as optimiser.lr.")
        field = path.partition(".")[0]
        require(field not in ELSEWHERE, f"--set {path}=…: {ELSEWHERE.get(field)}.")
    return {path: frozen(path, changes[path]) for path in sorted(changes)}


def written(path: str, value: Any) -> str:
    """FIELD=VALUE as `parse` reads it.

    >>> written("optimiser.name", "sgd"), written("data.lengths", (8, 16)), written("model.tag", "1")
    ('optimiser.name=sgd', 'data.lengths=[8,16]', 'model.tag="1"')
    """
    if isinstance(value, str):
        try:
            if _value(value, value) == value:
                return f"{path}={value}"
        except PosattnError:
            pass
    return f"{path}={identity.dumps(value)}"


def as_options(changes: Changes) -> str:
    """The changes as a command line has them."""
    return " ".join(f"--set {written(path, value)}" for path, value in settled(changes).items())


def name(changes: Changes) -> str:
    """What a file or folder of these changes is called: the changes, and a hash where not all can be spelled out.

    >>> name({"model.layers": 6, "optimiser.lr": 1e-3})
    'model.layers=6+optimiser.lr=0.001'
    """
    text = "+".join(written(path, value) for path, value in settled(changes).items())
    plain = re.sub(r'[]["{}]', "", text.lower())  # some file systems do not tell A from a
    safe = re.sub(r"[^a-z0-9_.=+-]+", "-", plain)
    if safe == text and len(text) <= LONGEST_NAME:
        return text
    return f"{safe[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def apply(trial: T, changes: Changes) -> T:
    """The trial with these fields changed and nothing else; `NoSuchField` where it has no field of that name."""
    below = {tuple(path.split(".")): value for path, value in settled(changes).items()}
    try:
        return cast(T, _changed(trial, below)) if below else trial
    except PosattnError as error:
        raise type(error)(f"{as_options(changes)}: {error}") from None


def has_field(trial: Runnable, path: str, value: Any) -> bool:
    """Whether a trial has the field, be the value right for it or not."""
    try:
        apply(trial, {path: value})
    except NoSuchField:
        return False
    except PosattnError:
        pass
    return True


@singledispatch
def _changed(trial: Runnable, changes: Below) -> Runnable:
    """What is computed, and not trained, has no protocol."""
    if not trial.trained:
        raise NoSuchField(f"'{trial.title}' is not trained, leave it as it is.")
    return _set(trial, changes, "")


@_changed.register
def _(trial: Trial, changes: Below) -> Runnable:
    task = tasks.get(trial.task)
    for options, known in ((("data", "options"), sample_options(task)), (("task_options",), task.options)):
        names = [_joined(*options, name) for name in known]
        for path in changes:
            named = path[: len(options) + 1]
            if path[: len(options)] == options != path and ".".join(named) not in names:
                raise NoSuchField(str(unknown(f"field of a trial of task '{trial.task}'", ".".join(named), names)))
    if any(path[:2] == ("data", "options") for path in changes):
        sets = own_options(trial.evaluation.sets, trial.data.options)
        trial = dataclasses.replace(trial, evaluation=dataclasses.replace(trial.evaluation, sets=sets))
    return _set(trial, changes, "")


@_changed.register
def _(trial: LanguageTrial, changes: Below) -> Runnable:
    """Its fields have the names that tables show, which are those of other trials."""
    for path in changes:
        if ".".join(path[:2]) not in FIELDS:
            raise NoSuchField(str(unknown("field of a language model's trial", ".".join(path), FIELDS)))
    if any(path[:2] == ("data", "options") for path in changes):
        trial = dataclasses.replace(trial, sets=own_options(trial.sets, trial.options))
    return _set(trial, {(FIELDS[".".join(path[:2])], *path[2:]): value for path, value in changes.items()}, "")


def _set(held: Any, changes: Below, at: str) -> Any:
    """What stands at a path, with the changes below it, all at once."""
    if () in changes:
        other = next((_joined(at, *path) for path in changes if path), None)
        require(other is None, f"{at} and {other} are both set: set one of them.")
        if dataclasses.is_dataclass(held):
            raise PosattnError(f"{at} is made of fields: set one of them, {at}.FIELD=VALUE.")
        return changes[()]
    below: dict[str, dict[tuple[str, ...], Any]] = {}
    for (first, *rest), value in changes.items():
        below.setdefault(first, {})[tuple(rest)] = value
    if isinstance(held, Mapping):
        return {**held, **{name: _set(held.get(name), some, _joined(at, name)) for name, some in below.items()}}
    if not dataclasses.is_dataclass(held):
        raise NoSuchField(f"{at} has no fields, set it as a whole, {at}=VALUE.")
    part: Any = held
    if not isinstance(part, Architecture):
        _check_fields(part, below, at)
    new = {name: _set(getattr(part, name, None), some, _joined(at, name)) for name, some in below.items()}
    return part.changed(**new) if isinstance(part, Architecture) else dataclasses.replace(part, **new)


def _joined(*names: str) -> str:
    return ".".join(filter(None, names))


def _check_fields(part: Any, names: Iterable[str], at: str) -> None:
    known = [field.name for field in dataclasses.fields(part) if field.name not in ELSEWHERE]
    for name in names:
        if name not in known:
            # lr alone is nearer to optimiser.lr than to any name of its own level
            inside = [_joined(at, one, name) for one in known if hasattr(getattr(part, one), name)]
            hint = f" Is it {' or '.join(inside)}?" if inside else ""
            nearest = unknown("field", _joined(at, name), [_joined(at, one) for one in known])
            raise NoSuchField(f"{nearest}{hint}")
