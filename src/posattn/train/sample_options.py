"""What samples are drawn with: options by name, and test sets, each a name with options of its own.

All of it is plain values that JSON gives back as they are, in copies that nobody else can change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

import numpy as np

from posattn.errors import PosattnError, kind_of, require
from posattn.tasks.base import sample_options

Options = Mapping[str, Any]

#: Options may be nested so deep; text that nests deeper is no trial.
DEEPEST = 20
#: Metadata of a trial's field that holds test sets: in JSON they are an object, options by name.
BY_NAME = {"by_name": True}


@dataclass(frozen=True)
class TestSet:
    """Samples to be tested on: a name, and what they are drawn with."""

    __test__ = False  # no test case, whatever pytest thinks of the name

    name: str
    options: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(isinstance(self.name, str), f"name={self.name!r} of a test set: it must be a word, or some words.")
        options = frozen(self.name, self.options)
        if not isinstance(options, Mapping):
            raise not_a_mapping(f"options of the test set '{self.name}'", options)
        object.__setattr__(self, "options", options)


class TestSets(tuple[TestSet, ...]):
    """Test sets in the order in which tables show them; two that differ in the order alone are equal."""

    __test__ = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TestSets) and _options(self) == _options(other)

    def __hash__(self) -> int:
        return hash(frozenset(_options(self)))


def _options(sets: TestSets) -> dict[str, Options]:
    return {one.name: one.options for one in sets}


#: Test sets as a caller gives them: `{"far": {"high": 6.0}}` is `(TestSet("far", {"high": 6.0}),)`.
Sets = Mapping[str, Options] | Sequence[TestSet]


def named(sets: Sets) -> TestSets:
    """The test sets, each once."""
    if isinstance(sets, TestSets):
        return sets
    if isinstance(sets, Mapping):
        return TestSets(TestSet(str(name), options) for name, options in sets.items())
    if not isinstance(sets, (tuple, list)) or not all(isinstance(one, TestSet) for one in sets):
        shown = tuple(sets) if isinstance(sets, list) else sets
        raise not_a_mapping("sets of the evaluation", shown, "a dict, or a list of TestSet")
    names = [one.name for one in sets]
    twice = next((name for name in names if names.count(name) > 1), None)
    require(twice is None, f"two test sets are called '{twice}': give each a name of its own.")
    return TestSets(sets)


def own_options(sets: Sets, inherited: Options) -> dict[str, Options]:
    """Options by name, without what a test set would inherit anyway: numbers are equal where they are written alike."""
    return {
        one.name: {
            name: value
            for name, value in one.options.items()
            if name not in inherited or not same(value, inherited[name])
        }
        for one in named(sets)
    }


def with_inherited(sets: Sets, inherited: Options) -> TestSets:
    """Test sets with all that they are drawn with."""
    return TestSets(TestSet(one.name, {**inherited, **one.options}) for one in named(sets))


def spelled_out(sets: Sets, data: Options, task: Any) -> TestSets:
    """Test sets of schema 1, which inherited nothing: where the data has an option, the task's default is theirs."""
    usual = {name: default for name, default in sample_options(task).items() if name in data}
    return with_inherited(sets, {name: value for name, value in usual.items() if value is not Parameter.empty})


def same(first: Any, second: Any) -> bool:
    """Whether two values are written alike: 2 and 2.0 are, 1 and True are not."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(same(first[name], second[name]) for name in first)
    if isinstance(first, (tuple, list)) and isinstance(second, (tuple, list)):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


def frozen(name: str, value: Any, depth: int = 0) -> Any:
    """A copy that nobody else can change: lists become tuples and NumPy's scalars Python's, at any depth."""
    require(depth <= DEEPEST, f"{name} is nested more than {DEEPEST} levels deep: make it flat.")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Mapping):
        return {str(key): frozen(str(key), entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, (np.generic, np.ndarray)):
        return frozen(name, value.tolist(), depth + 1)
    if isinstance(value, (list, tuple, range)):
        return tuple(frozen(name, entry, depth + 1) for entry in value)
    raise PosattnError(
        f"{name} is {kind_of(value)}: a trial holds numbers, text, True, False, None, and lists and dicts of those."
    )


def not_a_mapping(what: str, value: Any, wanted: str = "a dict") -> PosattnError:
    """The error for options or test sets that come in another form."""
    return PosattnError(f"{what}: {value!r} is {kind_of(value)}, and it must be {wanted}.")
