"""The library's programs, interpreted and compiled, against NumPy: every length, ties, extremes, all zeros and ones."""

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import library
from posattn.compile.interpreter import run
from posattn.compile.lowering.lower import lower
from posattn.compile.program import Program
from posattn.compile.programs.networks import comparators, doublings, partners, place_bits

DOMAIN = 1000
SHORT = [*range(1, 18), 32]
LIMITS = {torch.float32: 1e-6, torch.float64: 1e-14}
Oracle = Callable[[np.ndarray], np.ndarray]


def prefixes(function: Callable[[np.ndarray], float]) -> Oracle:
    """A function of every prefix of every row."""
    return lambda v: np.array([[function(row[: i + 1]) for i in range(len(row))] for row in v])


def best_subarray(v: np.ndarray) -> np.ndarray:
    """Kadane's algorithm: the best sum that ends here, and the best so far."""
    ends, best = v[:, 0], v[:, 0]
    found = [best]
    for column in v.T[1:]:
        ends = np.maximum(ends, 0) + column
        best = np.maximum(best, ends)
        found.append(best)
    return np.stack(found, axis=1)


def everywhere(v: np.ndarray, length: int) -> np.ndarray:
    return np.repeat(v[:, None], length, axis=1)


def middle(v: np.ndarray) -> np.ndarray:
    """The lower median."""
    return np.partition(v, (v.shape[1] - 1) // 2, axis=1)[:, (v.shape[1] - 1) // 2]


def random_destinations(length: int) -> list[int]:
    return np.random.default_rng(length).permutation(length).tolist()


#: Every program: its options for a length, and the same function on (samples, length), in another way.
ORACLES: dict[str, tuple[Callable[[int], dict[str, Any]], Oracle]] = {
    "cumsum": (lambda n: {}, lambda v: np.cumsum(v, axis=1)),
    "cummin": (lambda n: {}, lambda v: np.minimum.accumulate(v, axis=1)),
    "cummax": (lambda n: {}, lambda v: np.maximum.accumulate(v, axis=1)),
    "cummedian": (lambda n: {}, prefixes(lambda w: float(np.median(w)))),
    "sort": (lambda n: {}, lambda v: np.sort(v, axis=1)),
    "argsort": (lambda n: {}, lambda v: np.argsort(v, axis=1, kind="stable")),
    "kth middle": (lambda n: {"k": (n + 1) // 2}, lambda v: everywhere(middle(v), v.shape[1])),
    "max-subarray": (lambda n: {}, best_subarray),
    "reduce": (lambda n: {}, lambda v: everywhere(v.sum(1), v.shape[1])),
    "reduce min": (lambda n: {"operation": "min"}, lambda v: everywhere(v.min(1), v.shape[1])),
    "reduce max": (lambda n: {"operation": "max"}, lambda v: everywhere(v.max(1), v.shape[1])),
    "broadcast": (lambda n: {}, lambda v: everywhere(v[:, 0], v.shape[1])),
    "broadcast last": (lambda n: {"source": n - 1}, lambda v: everywhere(v[:, -1], v.shape[1])),
    "permute": (lambda n: {}, lambda v: v[:, ::-1]),
    "permute direct": (
        lambda n: {"destinations": random_destinations(n), "route": "direct"},
        lambda v: v[:, np.argsort(random_destinations(v.shape[1]))],
    ),
    "permute random": (
        lambda n: {"destinations": random_destinations(n)},
        lambda v: v[:, np.argsort(random_destinations(v.shape[1]))],
    ),
}
LONG = [(name, n) for name in ORACLES for n in (64, 256) if name not in ("cummedian", "argsort", "kth middle")]


def made(name: str, length: int) -> Program:
    return library.get(name.split()[0], length, **ORACLES[name][0](length))


def hard_inputs(length: int, *, whole: bool, seed: int = 0) -> np.ndarray:
    """Random, tied, equal, sorted, reversed, extreme, and tiny beside large; float32 numbers, (samples, length)."""
    generator = np.random.default_rng(seed + length)
    spread = generator.uniform(-DOMAIN, DOMAIN, (6, length))
    ties = generator.integers(-2, 3, (4, length)).astype(np.float64)
    extreme = generator.choice([-DOMAIN, DOMAIN], (3, length)).astype(np.float64)
    tiny = np.where(generator.random((3, length)) < 0.5, generator.normal(size=(3, length)) * 1e-3, spread[:3])
    rows = [spread, ties, extreme, tiny, np.sort(spread[:1]), -np.sort(-spread[:1]), np.full((1, length), DOMAIN)]
    rows += [np.full((1, length), -DOMAIN), np.full((1, length), 0.1), np.zeros((1, length))]
    every = np.concatenate(rows).astype(np.float32).astype(np.float64)
    return np.round(every) if whole else every


def computed(program: Program, x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The compiled model's output, for (samples, length, inputs)."""
    with torch.no_grad():
        return lower(program, domain=DOMAIN, dtype=dtype).model(torch.from_numpy(x).to(dtype)).double().numpy()


def largest_error(found: np.ndarray, expected: np.ndarray, x: np.ndarray) -> float:
    """Of any sample, relative to the largest magnitude that it reaches: inputs, sums of prefixes, outputs."""
    reach = np.max([np.abs(v).max(1) for v in (x, np.cumsum(x, axis=1), expected)], axis=0)
    return float((np.abs(found - expected).max(1) / np.maximum(reach, 1e-30)).max())


def check(name: str, length: int, dtype: torch.dtype) -> None:
    program, oracle = made(name, length), ORACLES[name][1]
    x = hard_inputs(length, whole=name == "argsort")
    expected = oracle(x.astype(np.longdouble) if name != "argsort" else x).astype(np.float64)
    found = computed(program, x[:, :, None], dtype)[:, :, 0]
    assert largest_error(found, expected, x) <= LIMITS[dtype]


@pytest.mark.parametrize("dtype", LIMITS, ids=["float32", "float64"])
@pytest.mark.parametrize("name", ORACLES)
def test_compiled_programs_equal_numpy_at_every_short_length(name, dtype):
    for length in SHORT if dtype == torch.float32 else (1, 2, 3, 5, 8, 13, 17, 32):
        check(name, length, dtype)


@pytest.mark.parametrize(("name", "length"), LONG)
def test_compiled_programs_equal_numpy_at_long_lengths(name, length):
    check(name, length, torch.float32)
    if length == 64:
        check(name, length, torch.float64)


@pytest.mark.parametrize("name", ORACLES)
def test_interpreter_and_oracle_equal_numpy(name):
    for length in (*range(1, 18), 32):
        program, x = made(name, length), hard_inputs(length, whole=name == "argsort", seed=1)
        expected = ORACLES[name][1](x)
        assert largest_error(run(program, x[:, :, None])[:, :, 0], expected, x) <= 1e-14
        assert program.oracle is not None
        assert largest_error(program.oracle(x[:, :, None])[:, :, 0], expected, x) <= 1e-14


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 13, 32])
def test_compiled_fetch_equals_numpy(length):
    """By sorting at every length, by the grid where that is small."""
    numbers = hard_inputs(length, whole=False)
    generator = np.random.default_rng(length)
    wanted = np.stack([generator.permutation(length) for _ in numbers])
    x = np.stack([numbers, wanted], axis=2)
    expected = np.take_along_axis(numbers, wanted, axis=1)
    for route in ("sort", "grid") if length <= 5 else ("sort",):
        program = library.get("fetch", length, route=route)
        np.testing.assert_array_equal(run(program, x)[:, :, 0], expected)
        assert program.oracle is not None
        np.testing.assert_array_equal(program.oracle(x)[:, :, 0], expected)
        for dtype, limit in LIMITS.items() if length <= 5 else [(torch.float32, 1e-6)]:
            assert largest_error(computed(program, x, dtype)[:, :, 0], expected, numbers) <= limit


@pytest.mark.parametrize("length", SHORT)
def test_compiled_merge_equals_numpy_on_all_sorted_zeros_and_ones_and_on_numbers(length):
    """Zeros and ones show it for all numbers: the network is one of compare-exchanges."""
    half = (length + 1) // 2
    places = np.arange(length)
    steps = np.array([
        np.where(places < half, places >= half - i, places - half >= length - half - j)
        for i in range(half + 1) for j in range(length - half + 1)
    ]).astype(np.float64)  # fmt: skip
    numbers = hard_inputs(length, whole=False)
    halves = np.concatenate([np.sort(numbers[:, :half], axis=1), np.sort(numbers[:, half:], axis=1)], axis=1)
    program = library.get("merge", length)
    assert program.oracle is not None
    for x in (steps, halves):
        np.testing.assert_array_equal(run(program, x[:, :, None])[:, :, 0], np.sort(x, axis=1))
        np.testing.assert_array_equal(program.oracle(x), np.sort(x, axis=1))
        found = computed(program, x[:, :, None], torch.float32)[:, :, 0]
        assert largest_error(found, np.sort(x, axis=1), x) <= 1e-6


@pytest.mark.parametrize("length", SHORT)
def test_gather_equals_numpy_whoever_asks_whom(length):
    rng = np.random.default_rng(length)
    numbers = hard_inputs(length, whole=True)
    wanted = rng.integers(0, length, numbers.shape)
    wanted[0], wanted[1], wanted[2], wanted[3] = 0, length - 1, np.arange(length), np.arange(length)[::-1]
    beyond = wanted.copy()
    beyond[4:] += np.where(wanted[4:] == length - 1, 7, np.where(wanted[4:] == 0, -5, 0))  # these count as the ends
    x = np.stack([numbers, beyond], axis=2).astype(np.float64)
    expected = np.array([[row[j] for j in asked] for row, asked in zip(numbers, wanted, strict=True)])
    if length == 1:
        expected = numbers
    program = library.get("gather", length)
    assert program.oracle is not None
    np.testing.assert_array_equal(run(program, x)[:, :, 0], expected)
    np.testing.assert_array_equal(program.oracle(x)[:, :, 0], expected)
    if length in (1, 2, 5, 8):
        np.testing.assert_array_equal(computed(program, x, torch.float32)[:, :, 0], expected)


def test_every_k_is_told_in_order():
    x = hard_inputs(5, whole=False)
    for k in range(1, 6):
        found = run(library.kth(5, k=k), x[:, :, None])[:, :, 0]
        np.testing.assert_array_equal(found, everywhere(np.sort(x, axis=1)[:, k - 1], 5))
    assert (library.kth(5).pad, library.kth(5, k=2).pad) == (1.0, None)


def test_every_way_to_ask_three_nodes_is_answered():
    asked = np.array(list(itertools.product(range(3), repeat=3)))
    x = np.stack([np.tile([7.0, -8.0, 9.0], (27, 1)), asked], axis=2)
    expected = np.array([[[7.0, -8.0, 9.0][j] for j in row] for row in asked])
    np.testing.assert_array_equal(computed(library.gather(3), x, torch.float32)[:, :, 0], expected)


@pytest.mark.parametrize("length", range(1, 11))
def test_sort_is_right_on_all_zeros_and_ones(length):
    """So it is on everything: a network of compare-exchanges that sorts these sorts all (Knuth, vol. 3, 5.3.4)."""
    x = np.array(list(itertools.product([0.0, 1.0], repeat=length)))
    np.testing.assert_array_equal(computed(library.sort(length), x[:, :, None], torch.float32)[:, :, 0], np.sort(x, 1))


@pytest.mark.parametrize("length", [11, 15, 17, 23, 32, 100, 257])
def test_the_sorting_network_sorts_any_length(length):
    """Random zeros and ones, through the comparators alone."""
    x = np.random.default_rng(0).random((2000, length)) < np.linspace(0, 1, 2000)[:, None]
    for mask, bit in comparators(length):
        other = x[:, partners(length, mask)]
        upper = (np.arange(length) >> bit & 1).astype(bool)
        x = np.where(upper, x | other, x & other)
    assert (np.diff(x.astype(int), axis=1) >= 0).all()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_argsort_is_stable_on_every_sequence_of_three_values(length):
    x = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=length)))
    found = computed(library.argsort(length), x[:, :, None], torch.float32)[:, :, 0]
    np.testing.assert_array_equal(found, np.argsort(x, axis=1, kind="stable"))


@pytest.mark.parametrize("grid", [0.1, 0.25, 3.0])
def test_argsort_is_exact_on_other_grids(grid):
    steps = np.random.default_rng(0).integers(-5, 6, (100, 11)) + np.linspace(-300, 300, 100).astype(int)[:, None]
    found = computed(library.argsort(11, grid=grid), (steps * grid)[:, :, None], torch.float32)[:, :, 0]
    np.testing.assert_array_equal(found, np.argsort(steps, axis=1, kind="stable"))


def test_layers_are_as_few_as_promised():
    for length in (*range(1, 10), 15, 16, 17, 31, 32, 33, 64, 65, 256):
        log = math.ceil(math.log2(length))
        rounds = {name: len(library.get(name, length).rounds) for name in ("cumsum", "cummin", "cummax", "sort")}
        assert rounds == {"cumsum": log, "cummin": log, "cummax": log, "sort": log * (log + 1) // 2}
        assert len(library.max_subarray(length).rounds) == max(1, log)
        assert len(library.reduce(length).rounds) == log + 1
        assert len(library.broadcast(length).rounds) == 1
        assert len(library.permute(length).rounds) == (2 * log - 1 if length > 1 else 0)
        assert len(library.permute(length, route="direct").rounds) == 1
        assert len(library.merge(length).rounds) == log
        assert len(library.kth(length).rounds) == log * (log + 1) // 2 + 1
        if length < 40:
            assert len(library.argsort(length).rounds) == log * (log + 1) // 2 + 1
            assert len(library.cummedian(length).rounds) == log * (log + 1) // 2 + 2
            assert library.cummedian(length).nodes == length * (length + 3) // 2


@pytest.mark.parametrize("name", ["cumsum", "cummin", "cummax", "cummedian", "sort", "argsort", "max-subarray"])
@pytest.mark.parametrize("length", [1, 5, 8])
def test_shorter_inputs_come_out_right_when_filled_up(name, length):
    """The first numbers of the output do not see what a missing input is filled up with."""
    program = library.get(name, 8)
    assert program.pad is not None
    x = hard_inputs(length, whole=name == "argsort")
    full = np.concatenate([x, np.full((len(x), 8 - length), program.pad * DOMAIN)], axis=1)
    found = run(program, full[:, :, None])[:, :length, 0]
    assert largest_error(found, ORACLES[name][1](x), x) <= 1e-14


def test_doublings_and_place_bits_by_hand():
    assert [list(doublings(n)) for n in (1, 2, 5, 8)] == [[], [1], [1, 2, 4], [1, 2, 4]]
    assert place_bits([0, 1, 2]) == {
        "upper0": (0, 1, 0), "lower0": (1, 0, 1), "upper1": (0, 0, 1), "lower1": (1, 1, 0),
    }  # fmt: skip
    assert list(comparators(4)) == [(1, 0), (3, 1), (1, 0)]
    assert partners(5, 3) == [3, 2, 1, 0, 4]


def test_every_program_is_in_the_table_above():
    assert {name.split()[0] for name in ORACLES} | {"fetch", "merge", "gather"} == set(library.PROGRAMS)
    assert all(program.name for program in (library.get(name, 3) for name in library.PROGRAMS))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: library.get("srot", 4), "unknown program 'srot': did you mean 'sort'"),
        (lambda: library.get("sort", 0), "length=0: it must be a whole number of at least 1"),
        (lambda: library.get("cummedian", -1), "length=-1"),
        (lambda: library.get("cumsum", 2.0), "length=2.0"),  # type: ignore[arg-type]
        (lambda: library.get("fetch", True), "length=True"),
        (lambda: library.get("argsort", 4, grid=0), "grid=0: the distance between two neighbouring numbers"),
        (lambda: library.get("reduce", 4, operation="mean"), "unknown operation 'mean'"),
        (lambda: library.get("kth", 4, k=5), "k=5: there are 4 numbers. Choose a k of 1 … 4"),
        (lambda: library.get("kth", 4, k=0), "k=0: it must be a whole number of at least 1"),
        (lambda: library.get("broadcast", 4, source=4), "source=4: it must be a node of 0 … 3"),
        (
            lambda: library.get("permute", 3, destinations=[0, 1]),
            "destinations=[0, 1]: name a node for each",
        ),
        (lambda: library.get("permute", 3, destinations=[0, 1, 1]), "destinations [0, 1, 1]: every node of 0 … 2"),
        (lambda: library.get("permute", 3, route="dirct"), "unknown route 'dirct': did you mean 'direct'"),
        (lambda: library.get("fetch", 3, route="mail"), "unknown route 'mail'"),
    ],
)
def test_bad_options_are_refused(build, message):
    with pytest.raises(PosattnError, match=re.escape(message)):
        build()
