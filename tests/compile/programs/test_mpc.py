"""Machines that address each other by data: both routes do what a simulator with a mailbox does."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import mpc
from posattn.compile.expressions import gate, select, word
from posattn.compile.interpreter import run
from posattn.compile.lowering.lower import lower
from posattn.compile.programs.mpc import Exchange, Message, Mpc, to_program
from posattn.compile.resources import mpc_cost

ROUTES = ["sort", "grid"]
x, a = word("x"), word("a")


def forward(machines: int) -> Mpc:
    """Two slots, then one, then none: x goes to addresses u and v, both data; who got something in slot 0 passes the
    sum on to slot 1 of the machine itself; then everybody halves what there is."""
    pass_on = Message(address=select(word("g0"), word("own"), -1), word=a)
    return Mpc(
        name="forward",
        machines=machines,
        registers=("x", "u", "v", "a", "g0", "g1", "own"),
        inputs=("x", "u", "v"),
        outputs=("a", "g0", "g1"),
        grid=1.0,
        constants={"own": tuple(float(2 * machine + 1) for machine in range(machines))},
        rounds=(
            Exchange(
                messages=(Message(address=word("u"), word=x), Message(address=word("v"), word=2 * x - 1)),
                update={"a": word("in0") + 3 * word("in1"), "g0": word("got0"), "g1": word("got1")},
            ),
            Exchange(messages=(pass_on,), update={"a": gate(a, shut=word("got1")) + 5 * word("in1") + word("in0")}),
            Exchange(messages=(), update={"a": a / 2 + word("got0")}),
        ),
    )


def simulated(sample: np.ndarray) -> list[list[float]]:
    """`forward` with a dictionary for a mailbox."""
    machines = len(sample)
    mail: dict[int, float] = {}
    for number, u, v in sample:
        for address, message in ((int(u), number), (int(v), 2 * number - 1)):
            if address >= 0:
                assert address not in mail
                mail[address] = message
    held = [mail.get(2 * m, 0.0) + 3 * mail.get(2 * m + 1, 0.0) for m in range(machines)]
    got = [(float(2 * m in mail), float(2 * m + 1 in mail)) for m in range(machines)]
    held = [5 * value if got[m][0] else value for m, value in enumerate(held)]
    return [[value / 2, *got[m]] for m, value in enumerate(held)]


def addressed(machines: int, addresses: np.ndarray, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    numbers = generator.integers(-9, 10, (len(addresses), machines, 1))
    return np.concatenate([numbers, addresses.reshape(-1, machines, 2)], axis=2).astype(np.float64)


def some_addresses(machines: int, samples: int, seed: int) -> np.ndarray:
    """Every sender names an address of its own, or none."""
    generator = np.random.default_rng(seed)
    every = np.stack([generator.permutation(2 * machines) for _ in range(samples)])
    silent = generator.random(every.shape) < generator.random((samples, 1))
    return np.where(silent, -1, every)


def all_addresses(machines: int) -> np.ndarray:
    cells = 2 * machines
    chosen = itertools.product(range(-1, cells), repeat=cells)
    return np.array([row for row in chosen if len({t for t in row if t >= 0}) == sum(t >= 0 for t in row)])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("machines", [1, 2])
def test_every_set_of_messages_arrives(machines, route):
    inputs = addressed(machines, all_addresses(machines), seed=machines)
    assert len(inputs) == {1: 7, 2: 209}[machines]  # Σ C(n, k)² k!
    found = run(to_program(forward(machines), route=route), inputs)
    np.testing.assert_array_equal(found, [simulated(sample) for sample in inputs])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("machines", [3, 4, 5, 7])
def test_messages_that_may_be_missing_arrive(machines, route):
    inputs = addressed(machines, some_addresses(machines, 100, seed=machines), seed=0)
    found = run(to_program(forward(machines), route=route), inputs)
    np.testing.assert_array_equal(found, [simulated(sample) for sample in inputs])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("machines", [1, 3])
def test_compiled_routes_equal_the_simulator(machines, route):
    inputs = addressed(machines, some_addresses(machines, 60, seed=5), seed=1)
    expected = np.array([simulated(sample) for sample in inputs])
    model = lower(to_program(forward(machines), route=route), domain=9, dtype=torch.float64).model
    with torch.no_grad():
        np.testing.assert_allclose(model(torch.from_numpy(inputs)).numpy(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("machines", [1, 2, 3, 4])
def test_fetch_answers_every_permutation(machines, route):
    wanted = np.array(list(itertools.permutations(range(machines))), dtype=np.float64)
    numbers = np.random.default_rng(0).uniform(-1000, 1000, wanted.shape)
    inputs = np.stack([numbers, wanted], axis=2)
    program = to_program(mpc.fetch(machines), route=route)
    expected = [[row[int(source)] for source in sources] for row, sources in zip(numbers, wanted, strict=True)]
    np.testing.assert_array_equal(run(program, inputs)[:, :, 0], expected)
    model = lower(program, domain=1000, dtype=torch.float64).model
    with torch.no_grad():
        found = model(torch.from_numpy(inputs)).numpy()[:, :, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14 * 1000)


@pytest.mark.parametrize("route", ROUTES)
def test_a_round_without_any_message_is_a_local_update(route):
    alone = Mpc(
        name="alone", machines=3, registers=("x",), rounds=(Exchange(messages=(), update={"x": 2 * x + word("got0")}),)
    )
    assert run(to_program(alone, route=route), np.array([[[1.0], [2.0], [3.0]]])).tolist() == [[[2], [4], [6]]]


@pytest.mark.parametrize("machines", [2, 3, 8, 17])
def test_resources_are_what_the_routes_say(machines):
    """s = 1, two rounds. Sorting: 2N more nodes, two sorts of 2N. Grid: N² more nodes, ⌈log₂ N⌉ rounds of adding."""
    levels, doubled = (machines - 1).bit_length(), (2 * machines - 1).bit_length()
    by_sort, by_grid = (to_program(mpc.fetch(machines), route=route) for route in ROUTES)
    assert (by_sort.nodes, len(by_sort.rounds)) == (3 * machines, 2 * (4 + doubled * (doubled + 1)))
    assert (by_grid.nodes, len(by_grid.rounds)) == (machines + machines**2, 2 * (3 + levels))


@pytest.mark.parametrize(
    ("machines", "slots", "rounds", "expected"),
    [(1, 1, 1, (2, 0, 2)), (8, 3, 5, (9, 30, 6)), (9, 1, 2, (10, 16, 2)), (32, 2, 1, (33, 10, 4))],
)
def test_the_theorem_promises(machines, slots, rounds, expected):
    promised, *_ = mpc_cost(machines, slots, rounds)
    assert (promised.nodes, promised.layers, promised.heads) == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"registers": ("x", "from", "asker", "me", "key")}, "register 'key' is declared twice"),
        ({"constants": {"me": (0.0,)}}, "constant 'me' has"),
        ({"outputs": ("y",)}, "output 'y' is not a register"),
    ],
)
def test_what_is_wrong_with_a_program_is_named(changed: dict[str, Any], message: str):
    held = mpc.fetch(3).__dict__ | changed
    with pytest.raises(PosattnError, match=message):
        to_program(Mpc(**held))


def test_an_unknown_route_is_refused():
    with pytest.raises(PosattnError, match="unknown route 'sotr': did you mean 'sort'"):
        to_program(mpc.fetch(3), route="sotr")
