"""What a specification says for given inputs, by brute force in NumPy: the check that it says what is meant."""

import numpy as np
from jaxtyping import Shaped

from posattn.compile import specification as specified
from posattn.compile.expressions import Array
from posattn.compile.interpreter import evaluate
from posattn.compile.program import Program
from posattn.errors import require


def expected(
    program: Program, x: Shaped[np.ndarray, "samples length inputs"]
) -> Shaped[np.ndarray, "samples output_nodes outputs"]:
    """The outputs that the program's specification asks for.

    >>> from posattn.compile.programs import library
    >>> expected(library.get("cummax", 3), np.array([[[1.0], [3.0], [2.0]]])).ravel().tolist()
    [1.0, 3.0, 3.0]
    """
    given = program.specification
    require(given is not None, f"program '{program.name}' has no specification: write Program(specification=…).")
    return _outputs(given, program, x)[:, : program.output_nodes]


def speaks_of(given: specified.Specification, x: Shaped[np.ndarray, "length inputs"]) -> bool:
    """Whether a specification says what comes out for this input: some are of ascending runs or permutations alone.

    >>> merged = specified.Merged((2, 1))
    >>> speaks_of(merged, np.array([[1.0], [3.0], [2.0]])), speaks_of(merged, np.array([[3.0], [1.0], [2.0]]))
    (True, False)
    """
    match given:
        case specified.Merged(runs):
            return all((np.diff(run) >= 0).all() for run in np.split(x[:, 0], np.cumsum(runs)[:-1]))
        case specified.Fetched():
            return np.array_equal(np.sort(x[:, 1]), np.arange(len(x)))
    return True


def _outputs(given: specified.Specification | None, program: Program, x: Array) -> Array:
    """Those that are asked for, and maybe some more nodes of them."""
    v = x[:, :, 0]
    match given:
        case specified.Sorted() | specified.Merged():
            return np.sort(v, axis=1)[:, :, None]
        case specified.Ranked(ranks):
            return np.sort(v, axis=1)[:, list(ranks), None]
        case specified.ArgSorted():
            return np.argsort(v, axis=1, kind="stable").astype(x.dtype)[:, :, None]
        case specified.PrefixMedians():
            return np.stack([np.median(v[:, : i + 1], axis=1) for i in range(v.shape[1])], axis=1)[:, :, None]
        case specified.Permuted(table):
            return x[:, list(table)]
        case specified.Broadcast(source):
            return np.repeat(x[:, source : source + 1], program.output_nodes, axis=1)
        case specified.Fetched():
            return np.take_along_axis(v, x[:, :, 1].astype(int), axis=1)[:, :, None]
        case specified.Gathered():
            named = np.clip(x[:, :, 1], 0, x.shape[1] - 1).astype(int)
            return np.take_along_axis(v, named, axis=1)[:, :, None]
        case specified.Scan():
            return _scanned(given.semigroup(program.inputs), program, x)
        case specified.Reduced():
            last = _scanned(given.semigroup(program.inputs), program, x)[:, -1:]
            return np.repeat(last, program.output_nodes, axis=1)
        case specified.Computes(values):
            words = {f"{name}[{i}]": x[:, i, k] for k, name in enumerate(program.inputs) for i in range(x.shape[1])}
            return np.stack([np.stack([evaluate(e, words) for e in values[o]], 1) for o in program.outputs], 2)
    raise TypeError(f"{given!r} is not a specification.")


def _scanned(op: specified.Semigroup, program: Program, x: Array) -> Array:
    """From left to right, one node at a time."""
    entered = [
        {part: evaluate(op.enter[part], dict(zip(program.inputs, x[:, node].T, strict=True))) for part in op.parts}
        for node in range(x.shape[1])
    ]
    held, found = entered[0], []
    for node, one in enumerate(entered):
        if node:
            sides = {f"left {part}": held[part] for part in op.parts} | {
                f"right {part}": one[part] for part in op.parts
            }
            held = {part: evaluate(op.join[part], sides) for part in op.parts}
        found.append(np.stack([evaluate(leaving, held) for leaving in op.leave], axis=1))
    return np.stack(found, axis=1)
