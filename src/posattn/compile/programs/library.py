"""The programs that come with posattn, by name, for any length of at least 1.

    cumsum, cummin, cummax, max-subarray     ⌈log₂ n⌉ rounds (`scans`)
    reduce                                   a scan, then a broadcast (`scans`)
    sort                                     ⌈log₂ n⌉(⌈log₂ n⌉ + 1)/2 rounds (`sorting`)
    argsort                                  one more; keys on a grid, ties keep their order (`sorting`)
    kth                                      one more, and node k − 1 tells (`sorting`)
    merge                                    ⌈log₂ n⌉ rounds, for two sorted halves (`sorting`)
    cummedian                                two more than sort, on n(n + 3)/2 nodes: it sorts every prefix (`sorting`)
    broadcast, permute                       1 round; permute by a Beneš network 2⌈log₂ n⌉ − 1 (`routing`)
    fetch                                    x[from[i]] at every i, for addresses that are data (`routing`, `mpc`)
    gather                                   the same where several may name one node (`gathering`)

Each has an oracle, the same function in NumPy. `register` adds a program of your own.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from posattn import user_code
from posattn.checks import choice, whole
from posattn.compile.program import Program
from posattn.compile.programs.building import program_length
from posattn.compile.programs.gathering import gather
from posattn.compile.programs.routing import broadcast, fetch, permute
from posattn.compile.programs.scans import cummax, cummin, cumsum, max_subarray, reduce
from posattn.compile.programs.sorting import argsort, cummedian, kth, merge, sort
from posattn.errors import PosattnError, kind_of, require, unknown

__all__ = [
    "PROGRAMS",
    "argsort",
    "broadcast",
    "cummax",
    "cummedian",
    "cummin",
    "cumsum",
    "fetch",
    "gather",
    "get",
    "kth",
    "max_subarray",
    "merge",
    "permute",
    "reduce",
    "register",
    "sort",
]

PROGRAMS: dict[str, Callable[..., Program]] = {
    "cumsum": cumsum,
    "cummin": cummin,
    "cummax": cummax,
    "cummedian": cummedian,
    "sort": sort,
    "argsort": argsort,
    "kth": kth,
    "merge": merge,
    "max-subarray": max_subarray,
    "reduce": reduce,
    "broadcast": broadcast,
    "permute": permute,
    "fetch": fetch,
    "gather": gather,
}
#: The programs that come with posattn.
OURS = frozenset(PROGRAMS)

Build = TypeVar("Build", bound=Callable[..., Program])


def register(build: Build) -> Build:
    """Let `get` and `posattn compile` know a program of your own: a function of the length that builds it.

    It is called as the function is, with dashes; the function's other arguments are its options, and the first sentence
    of its docstring is what `posattn programs` says it computes. Registering a name again replaces it.

    >>> from posattn.compile import Round, word
    >>> @register
    ... def twice(length: int) -> Program:
    ...     double = Round(update={"x": word("x") + word("x")})
    ...     return Program(name="twice", length=length, nodes=length, registers=("x",), rounds=(double,))
    >>> get("twice", 3).nodes
    3
    >>> del PROGRAMS["twice"]
    """
    name = getattr(build, "__name__", "<lambda>").replace("_", "-")
    if not callable(build) or isinstance(build, type) or name == "<lambda>":
        raise PosattnError(f"build is {kind_of(build)}, {build!r:.60}: pass a function, called as the program is.")
    require(name not in OURS, f"'{name}' is a program of posattn's own: give the function another name.")
    places = list(inspect.signature(build).parameters.values())
    require(
        bool(places) and places[0].kind in (places[0].POSITIONAL_ONLY, places[0].POSITIONAL_OR_KEYWORD),
        f"{build.__name__}{inspect.signature(build)} must take the length first: {build.__name__}(length).",
    )
    PROGRAMS[name] = build
    return build


def get(name: str, length: int, **options: Any) -> Program:
    """The library's program of this name for a length."""
    choice("program", name, PROGRAMS)
    known = list(inspect.signature(PROGRAMS[name]).parameters)[1:]
    for option in options:
        require(bool(known), f"program '{name}' has no options: leave out '{option}'.")
        if option not in known:
            raise unknown(f"option of program '{name}'", option, known)
    if name not in OURS:
        return _users(name, whole("length", length, least=1), options)
    length = program_length(name, length, options.get("route", "sort"))
    return replace(PROGRAMS[name](length, **options), recipe={"name": name, "length": length, **options})


def _users(name: str, length: int, options: dict[str, Any]) -> Program:
    """A user's program. It has no recipe: a file that holds it is read without the user's code."""
    with user_code.named(f"program '{name}'", owner=PROGRAMS[name]):
        found = PROGRAMS[name](length, **options)
    if not isinstance(found, Program):
        at = user_code.defined_at(PROGRAMS[name])
        raise PosattnError(f"program '{name}' ({at}) gave {kind_of(found)}: return a posattn.compile.Program.")
    return found
