"""Any permutation in 2⌈log₂ N⌉ − 1 rounds of swaps with partners that depend on N alone."""

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np
import pytest

from posattn import PosattnError
from posattn.compile.programs.benes import benes, rounds_of

pytestmark = pytest.mark.usefixtures("as_users_run_it")  # many small calls: checks of annotations take most of the time


def delivers(destinations: Sequence[int], rounds: list[tuple[int, ...]]) -> bool:
    words = list(range(len(destinations)))
    for sources in rounds:
        words = [words[source] for source in sources]
    return all(words[destination] == word for word, destination in enumerate(destinations))


def partners(found: list[list[tuple[int, ...]]]) -> list[dict[int, set[int]]]:
    """Whom each node ever took a word from, but itself, in each round."""
    met: list[dict[int, set[int]]] = []
    for rounds in zip(*found, strict=True):
        met.append({node: {sources[node] for sources in rounds} - {node} for node in range(len(rounds[0]))})
    return met


def is_fixed_pairing(met: dict[int, set[int]]) -> bool:
    return all(len(others) <= 1 and all(met[other] in ({node}, set()) for other in others)
               for node, others in met.items())  # fmt: skip


@pytest.mark.parametrize("count", range(1, 9))
def test_benes_routes_every_permutation_up_to_8_through_one_wiring(count):
    found = []
    for destinations in itertools.permutations(range(count)):
        rounds = benes(destinations)
        assert delivers(destinations, rounds)
        found.append(rounds)
    assert len(found) == math.factorial(count)
    assert {len(rounds) for rounds in found} == {2 * math.ceil(math.log2(count)) - 1 if count > 1 else 0}
    for met in partners(found):
        assert is_fixed_pairing(met)
    assert all(sources[sources[node]] == node for rounds in found for sources in rounds for node in range(count))


@pytest.mark.parametrize("count", [9, 10, 11, 12, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 255, 256, 257])
def test_benes_routes_random_permutations_of_any_number_through_one_wiring(count):
    generator = np.random.default_rng(count)
    found = []
    cases = [generator.permutation(count).tolist() for _ in range(30)]
    for destinations in [*cases, list(range(count)), list(range(count))[::-1], [*range(1, count), 0]]:
        rounds = benes(destinations)
        assert delivers(destinations, rounds)
        assert len(rounds) == rounds_of(count) == 2 * math.ceil(math.log2(count)) - 1
        found.append(rounds)
    for met in partners(found):
        assert is_fixed_pairing(met)


@pytest.mark.parametrize("count", [1000, 1023, 1024])
def test_benes_routes_a_thousand(count):
    for seed in range(3):
        destinations = np.random.default_rng(seed).permutation(count).tolist()
        rounds = benes(destinations)
        assert delivers(destinations, rounds)
        assert len(rounds) == 19


@pytest.mark.parametrize("destinations", [[], [1], [0, 0], [0, 2], [-1, 0], [1, 2, 3]])
def test_what_is_no_permutation_is_refused(destinations):
    with pytest.raises(PosattnError, match=re.escape(f"destinations {destinations}: every node of 0 …")):
        benes(destinations)
