"""A program is its specification: what is proved agrees with all inputs of small programs, nothing wrong is proved."""

import importlib
import itertools
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posattn.compile import Program, Round, exchange, library, maximum, minimum, positive, reads, run, select, word
from posattn.compile.expected import expected
from posattn.compile.input_ranges import grid_of
from posattn.compile.proof.findings import Finding, Outcome, OutOfTime, TimeLimit
from posattn.compile.proof.specification import prove_specification
from posattn.compile.specification import ArgSorted, Broadcast, Merged, Permuted, Ranked, Reduced, Scan, Sorted

sys.path.append(str(Path(__file__).parents[4] / "benchmarks"))
specifications: Any = importlib.import_module("specifications")

#: Runtime checks of annotations take 30 times as long as a proof; the files' own tests run with them.
pytestmark = pytest.mark.usefixtures("as_users_run_it")
SAMPLE = [(length, name, options) for length in (1, 2, 3, 6) for name, options in specifications.PROGRAMS]
SAMPLE += [(32, "sort", {}), (33, "cummax", {}), (17, "max-subarray", {}), (24, "argsort", {}), (9, "fetch", {})]
SAMPLE += [(17, "gather", {})]


def proved(program: Program) -> Finding:
    return prove_specification(program, TimeLimit())


def everything(program: Program) -> np.ndarray:
    """All inputs of a small program that take few values; enough to tell any two library programs apart."""
    x = [np.array(list(itertools.product((0.0, 1.0), repeat=program.length)))]
    if program.permutations:
        orders = np.array(list(itertools.permutations(range(program.length))), float)
        return np.stack([np.tile(2.0 ** np.arange(program.length), (len(orders), 1)), orders], axis=2)
    if len(program.inputs) > 1:  # x, and whom each node asks
        asked = np.array(list(itertools.product(range(-1, program.length + 1), repeat=program.length)), float)
        return np.stack([np.tile(2.0 ** np.arange(program.length), (len(asked), 1)), asked], axis=2)
    draw = np.random.default_rng(0)
    x.append(draw.integers(-9, 10, (500, program.length)).astype(float))
    return np.concatenate(x)[:, :, None] * (grid_of(program, "x") or 1.0)


def is_right(program: Program) -> bool:
    x = everything(program)
    return np.allclose(run(program, x), expected(program, x), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("length", "name", "options"), SAMPLE, ids=lambda value: str(value))
def test_library_programs_are_their_specifications(length, name, options):
    finding = proved(library.get(name, length, **options))
    assert (finding.outcome, finding.detail) == (Outcome.STANDS, "")


def comparators(program: Program) -> list[tuple[int, int, int]]:
    return [
        (count, node, source[0])
        for count, round_ in enumerate(program.rounds)
        for node, source in enumerate(round_.receive["other"])
        if source is not None and source[0] > node
    ]


@pytest.mark.parametrize("length", [5, 8])
def test_a_sort_without_one_comparator_stands_exactly_if_it_sorts_all_bits(length):
    program = library.get("sort", length)
    outcomes = set()
    for count, node, other in comparators(program):
        table = list(program.rounds[count].receive["other"])
        table[node], table[other] = (node, "x"), (other, "x")
        rounds = list(program.rounds)
        rounds[count] = replace(rounds[count], receive={"other": tuple(table)})
        changed = replace(program, rounds=tuple(rounds))
        outcome = proved(changed).outcome
        outcomes.add(outcome)
        assert outcome == (Outcome.STANDS if is_right(changed) else Outcome.REFUTED)
    assert Outcome.REFUTED in outcomes


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_changed_programs_are_refuted_exactly_if_they_are_wrong_on_some_small_input(name):
    draw = random.Random(1)
    for change in specifications.CHANGES * 2:
        program = specifications.changed(library.get(name, 5), change, draw)
        assert program is not None
        assert (proved(program).outcome == Outcome.REFUTED) == (not is_right(program))


def test_changed_sorts_beyond_all_bits_are_refused():
    draw = random.Random(2)
    for change in specifications.CHANGES:
        program = specifications.changed(library.get("sort", 64), change, draw)
        assert program is not None
        finding = proved(program)
        assert finding.outcome == Outcome.REFUTED
        assert "the specification asks for" in finding.detail


@pytest.mark.parametrize("name", ["sort", "cumsum", "cummax", "max-subarray", "permute", "broadcast", "reduce"])
def test_no_program_is_proved_to_be_another(name):
    program = library.get(name, 6)
    for other in ("sort", "cumsum", "cummax", "max-subarray", "permute", "broadcast", "reduce"):
        claimed = replace(program, specification=library.get(other, 6).specification)
        assert proved(claimed).outcome == (Outcome.STANDS if name == other else Outcome.REFUTED)


def test_a_name_and_a_recipe_prove_nothing():
    impostor = replace(library.get("cummax", 4), name="sort", recipe={"name": "sort", "length": 4})
    assert proved(replace(impostor, specification=Sorted())).outcome == Outcome.REFUTED


def test_a_program_without_a_specification_is_said_to_have_none():
    finding = proved(replace(library.get("sort", 4), specification=None))
    assert finding.outcome == Outcome.ABSENT
    assert "the proof is about the program" in finding.claim


def test_a_finding_names_the_inputs_that_it_is_about():
    assert proved(library.get("sort", 4)).inputs == "'x': all real numbers"
    assert proved(library.get("argsort", 4, grid=0.5)).inputs == "'x': all multiples of 0.5"
    assert proved(library.get("fetch", 3)).inputs == "'x': all real numbers; 'from': every permutation of 0 … 2"
    assert proved(library.get("gather", 2)).inputs == "'x': all real numbers; 'from': all multiples of 1"


def test_a_proof_ends_when_its_time_is_over():
    with pytest.raises(OutOfTime):
        prove_specification(library.get("sort", 64), TimeLimit(0.0))


def network(length: int, rounds: list[list[tuple[int, int]]], **options) -> Program:
    """A network of comparators (low, high), with a bit per round that says who is upper."""
    made, constants = [], {}
    for count, pairs in enumerate(rounds):
        met, upper = list(range(length)), [0.0] * length
        for low, high in pairs:
            met[low], met[high], upper[high] = high, low, 1.0
        constants[f"upper{count}"] = tuple(upper)
        update = {"x": exchange(word("x"), word("other"), upper=word(f"upper{count}"))}
        made.append(Round(receive={"other": reads("x", met)}, update=update))
    return Program(
        name="network",
        length=length,
        nodes=length,
        registers=("x", *constants),
        rounds=tuple(made),
        constants=constants,
        **options,
    )


def test_a_network_with_too_many_states_is_left_open_and_the_reason_says_what_is_decided():
    finding = proved(network(40, odd_even(40, 40), specification=Sorted()))
    assert finding.outcome == Outcome.OPEN
    assert "too many states together to try them all" in finding.detail
    assert "up to 20 numbers are decided, and longer ones that sort short runs and merge them" in finding.detail


def odd_even(length: int, rounds: int) -> list[list[tuple[int, int]]]:
    return [[(i, i + 1) for i in range(count % 2, length - 1, 2)] for count in range(rounds)]


def test_sorting_networks_that_the_library_does_not_have_are_proved_by_all_bits():
    assert proved(network(12, odd_even(12, 12), specification=Sorted())).outcome == Outcome.STANDS
    assert proved(network(12, odd_even(12, 11), specification=Sorted())).outcome == Outcome.REFUTED


def test_min_and_max_written_apart_sort_like_an_exchange():
    low = Round(
        receive={"other": reads("x", [1, 0])},
        update={"x": select(word("upper"), maximum(word("x"), word("other")), minimum(word("x"), word("other")))},
    )
    program = network(2, [], specification=Sorted())
    program = replace(program, registers=("x", "upper"), constants={"upper": (0.0, 1.0)}, rounds=(low,))
    assert proved(program).outcome == Outcome.STANDS
    assert proved(replace(program, constants={"upper": (1.0, 0.0)})).outcome == Outcome.REFUTED


def merging(length: int) -> list[list[tuple[int, int]]]:
    """Batcher's bitonic merge of two ascending halves, the second one reflected."""
    half = length // 2
    rounds = [[(i, length - 1 - i) for i in range(half)]]
    stride = half // 2
    while stride:
        rounds.append([(i, i + stride) for i in range(length) if not i & stride])
        stride //= 2
    return rounds


def test_a_merge_sorts_two_ascending_halves_and_nothing_else():
    rounds = merging(32)
    assert proved(network(32, rounds, specification=Merged((16, 16)))).outcome == Outcome.STANDS
    assert proved(network(32, rounds, specification=Sorted())).outcome == Outcome.REFUTED
    assert proved(network(32, rounds[:-1], specification=Merged((16, 16)))).outcome == Outcome.REFUTED


def test_a_sort_then_a_read_is_a_selection():
    program = library.get("sort", 9)
    tell = Round(receive={"told": reads("x", [2] * 9)}, update={"x": word("told")})
    selecting = replace(program, rounds=(*program.rounds, tell), specification=Ranked((2,) * 9))
    assert proved(selecting).outcome == Outcome.STANDS
    assert proved(replace(selecting, specification=Ranked((3,) * 9))).outcome == Outcome.REFUTED


def test_ties_that_are_too_close_or_too_wide_are_not_proved():
    program = library.get("argsort", 4)
    assert proved(program).outcome == Outcome.STANDS
    for tie in ((0.0, 0.0, 0.5, 0.75), (0.0, 0.5, 1.0, 1.5), (0.75, 0.5, 0.25, 0.0), (0.0, 0.01, 0.02, 0.03)):
        changed = replace(program, constants={**program.constants, "tie": tie})
        assert proved(changed).outcome != Outcome.STANDS
    assert proved(replace(program, grid=None)).outcome != Outcome.STANDS


def test_ties_lie_below_the_grid_of_the_input_that_is_sorted():
    program = library.get("argsort", 4)
    assert proved(replace(program, grid={"x": 1.0})).outcome == Outcome.STANDS
    assert proved(replace(program, grid={"x": 0.5})).outcome != Outcome.STANDS


def shown_to(program: Program, nodes: int, outputs: int, specification) -> Program:
    """The program on more nodes, whose last round tells node 0's number to as many nodes as there are outputs."""
    rounds = tuple(
        replace(
            round_,
            receive={slot: (*table, *[None] * (nodes - len(table))) for slot, table in round_.receive.items()},
        )
        for round_ in program.rounds
    )
    tell = Round(receive={"told": reads("x", [0] * nodes)}, update={"x": word("told")})
    constants = {name: (*values, *[0.0] * (nodes - len(values))) for name, values in program.constants.items()}
    return replace(
        program,
        nodes=nodes,
        rounds=(*rounds, tell),
        constants=constants,
        output_length=outputs,
        specification=specification,
        pad=None,
        recipe=None,
        oracle=None,
    )


@pytest.mark.parametrize("outputs", [1, 3, 9])
def test_programs_with_more_or_fewer_outputs_are_proved_at_each_of_them(outputs):
    least = shown_to(library.get("sort", 5), 9, outputs, Ranked((0,) * outputs))
    assert proved(least).outcome == Outcome.STANDS
    assert proved(replace(least, specification=Ranked((*[0] * (outputs - 1), 1)))).outcome == Outcome.REFUTED
    assert proved(replace(least, specification=Reduced("min"))).outcome != Outcome.STANDS  # an exchange is no minimum
    total = shown_to(library.get("reduce", 5), 9, outputs, Reduced("sum"))
    assert proved(total).outcome == Outcome.STANDS
    assert proved(replace(total, specification=Reduced("max"))).outcome == Outcome.REFUTED
    first = shown_to(library.get("broadcast", 5), 9, outputs, Broadcast(0))
    assert proved(first).outcome == Outcome.STANDS
    assert proved(replace(first, specification=Broadcast(1))).outcome == Outcome.REFUTED


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_the_first_outputs_of_a_program_are_proved_by_themselves(name):
    held = library.get(name, 4)
    specification = Ranked((0, 0)) if isinstance(held.specification, Ranked) else held.specification
    first = replace(held, output_length=2, specification=specification, oracle=None, recipe=None)
    assert proved(first).outcome == Outcome.STANDS


def test_an_output_beyond_the_inputs_that_is_wrong_is_refuted():
    first = shown_to(library.get("broadcast", 3), 6, 6, Broadcast(0))
    last = first.rounds[-1]
    missing = replace(last, receive={"told": reads("x", [0, 0, 0, 0, 0, None])})
    finding = proved(replace(first, rounds=(*first.rounds[:-1], missing)))
    assert finding.outcome == Outcome.REFUTED
    assert "node 5" in finding.detail


def test_a_payload_that_stays_behind_is_refuted():
    program = library.get("argsort", 4)
    last = program.rounds[-1]
    table = list(last.receive["index there"])
    table[1] = (1, "index")
    changed = replace(last, receive={**last.receive, "index there": tuple(table)})
    assert proved(replace(program, rounds=(*program.rounds[:-1], changed))).outcome == Outcome.REFUTED


def test_a_comparison_of_real_numbers_by_a_grid_is_not_proved():
    swap = positive(word("x") - word("other"), grid=1.0)
    both = Round(receive={"other": reads("x", [1, 0])}, update={"x": select(swap, word("other"), word("x"))})
    program = replace(network(2, [], specification=Ranked((0, 0))), rounds=(both,))
    assert proved(program).outcome != Outcome.STANDS  # x = 0 and 0.25 are not told apart
    assert proved(replace(program, specification=Permuted((0, 1)))).outcome == Outcome.REFUTED
    assert proved(replace(program, specification=ArgSorted(), grid=1.0)).outcome != Outcome.STANDS


def test_an_operator_over_overlapping_sums_is_refuted():
    program = library.get("cumsum", 8)
    wide = Round(receive={"left": reads("x", [None, *range(7)])}, update={"x": word("x") + word("left")})
    assert proved(replace(program, rounds=(wide, wide), specification=Scan("sum"))).outcome == Outcome.REFUTED
