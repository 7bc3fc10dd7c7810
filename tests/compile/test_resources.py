"""Resources: counted without compiling, and the same as what is compiled; theorems as they stand in the paper."""

import math

import pytest
import torch

from compile.models import library_model
from posattn import PosattnError, StandardTransformer
from posattn.compile import Program, Round, compile, library, mpc, reads, word
from posattn.compile.programs.simulate_standard import simulate
from posattn.compile.resources import Resources, mpc_cost, mpc_table, standard_table, transformer_cost, used


def log(n: int) -> int:
    """⌈log₂ n⌉ by counting."""
    steps = 0
    while 2**steps < n:
        steps += 1
    return steps


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", library.PROGRAMS)
def test_what_is_counted_is_what_is_compiled(name, length):
    if name == "fetch" and length > 3:
        length = 4
    sizes = library_model(name, length).model.architecture
    assert used(library.get(name, length)) == Resources(name, sizes.nodes, sizes.depth, sizes.heads)


#: Nodes, layers and heads of each program in docs/compiler.md.
TABLE = {
    "cumsum": (lambda n: n + 1, log, 1),
    "cummin": (lambda n: n, log, 1),
    "cummax": (lambda n: n, log, 1),
    "max-subarray": (lambda n: n + 1, log, 1),
    "sort": (lambda n: n, lambda n: log(n) * (log(n) + 1) // 2, 1),
    "argsort": (lambda n: n, lambda n: log(n) * (log(n) + 1) // 2 + 1, 3),
    "kth": (lambda n: n, lambda n: log(n) * (log(n) + 1) // 2 + 1, 1),
    "merge": (lambda n: n, log, 1),
    "gather": (lambda n: 2 * n + 1, lambda n: log(2 * n) * (log(2 * n) + 2) + 1, 3),
    "cummedian": (lambda n: n * (n + 3) // 2 + 1, lambda n: log(n) * (log(n) + 1) // 2 + 2, 2),
    "reduce": (lambda n: n + 1, lambda n: log(n) + 1, 1),
    "broadcast": (lambda n: n, lambda n: 1, 1),
    "permute": (lambda n: n, lambda n: 2 * log(n) - 1, 1),
    "fetch": (lambda n: 3 * n + 1, lambda n: 2 * (log(2 * n) * (log(2 * n) + 1) + 4), 3),
}


@pytest.mark.parametrize("length", [2, 4, 7, 13, 32])
@pytest.mark.parametrize("name", library.PROGRAMS)
def test_the_documented_formulas_hold(name, length):
    nodes, layers, heads = TABLE[name]
    found = used(library.get(name, length))
    assert (found.nodes, found.layers) == (nodes(length), layers(length))
    assert found.heads == heads or length == 2  # two numbers leave little to tell apart


def two_slots(machines: int) -> mpc.Mpc:
    """Every machine sends to the next two."""
    n, me = machines, [float(i) for i in range(machines)]
    return mpc.Mpc(
        name="neighbours",
        machines=n,
        registers=("x", "first", "second"),
        constants={"first": tuple((i + 1) % n * 2 for i in me), "second": tuple((i + 2) % n * 2 + 1 for i in me)},
        rounds=(
            mpc.Exchange(
                messages=(
                    mpc.Message(address=word("first"), word=word("x")),
                    mpc.Message(address=word("second"), word=word("x")),
                ),
                update={"x": word("in0") + word("in1")},
            ),
        ),
    )


@pytest.mark.parametrize("program", [mpc.fetch(1), mpc.fetch(3), mpc.fetch(4), two_slots(3)], ids=lambda p: p.name)
def test_the_table_of_an_mpc_program_has_the_theorem_and_both_routes(program):
    theorem, sort, grid = mpc_table(program)
    rounds, cells = len(program.rounds), program.machines * program.slots
    assert theorem == Resources(
        "Theorem 5.1", program.machines + 1, 2 * rounds * log(program.machines), 2 * program.slots
    )
    assert (sort.what, grid.what) == ("route=sort", "route=grid")
    assert sort.nodes == program.machines + 2 * cells + 1
    assert grid.nodes == program.machines + cells**2 + 1
    assert grid.layers == rounds * (3 + log(cells))
    assert sort.layers == rounds * (4 + log(2 * cells) * (log(2 * cells) + 1))
    if program.machines == 3:
        for route, found in (("sort", sort), ("grid", grid)):
            made = compile(mpc.to_program(program, route=route), domain=5).verify(samples=8)
            assert made.certificate is not None
            assert made.certificate.holds
            sizes = made.model.architecture
            assert (found.nodes, found.layers, found.heads) == (sizes.nodes, sizes.depth, sizes.heads)


def test_the_documented_table_of_sixteen_machines_is_right():
    rows = [(row.nodes, row.layers, row.heads) for row in mpc_table(mpc.fetch(16))]
    assert rows == [(17, 16, 2), (49, 68, 3), (273, 14, 1)]


@pytest.mark.parametrize(("length", "scratchpad", "layers"), [(1, 0, 1), (2, 1, 2), (4, 1, 3), (8, 1, 4)])
def test_the_table_of_a_standard_transformer_has_the_remark_and_the_simulation(length, scratchpad, layers):
    generator = torch.Generator().manual_seed(0)
    model = StandardTransformer(
        length=length, scratchpad=scratchpad, embed_dim=2, hidden_dim=2, heads=1, layers=layers, generator=generator
    )
    remark, simulation = standard_table(model.architecture, simulate(model))
    n = length + scratchpad
    assert remark == Resources("Remark 5.1, order of", n**2, layers * max(1, math.ceil(math.log2(n))), None)
    assert simulation.nodes - (n + n * n) in (0, 1)
    assert simulation.layers == 2 + layers * (3 + 2 * log(n) + 2)
    if n == 9:  # as documented
        assert (simulation.nodes, simulation.layers) == (91, 54)
        assert (remark.nodes, remark.layers) == (81, 16)


def test_words_that_nobody_needs_cost_nothing():
    useless = Round(
        receive={"far": reads("x", [1, 0]), "none": reads("x", [None, 0])},
        update={"y": word("far") + word("none"), "x": word("x") + 1.0},
    )
    program = Program(name="waste", length=2, nodes=2, registers=("x", "y"), rounds=(useless,))
    assert used(program) == Resources("waste", 2, 1, 1)
    sizes = compile(program).model.architecture
    assert (sizes.nodes, sizes.depth, sizes.heads) == (2, 1, 1)
    assert used(program, "named").what == "named"


@pytest.mark.parametrize(("machines", "words", "rounds"), [(1, 1, 1), (16, 1, 2), (3, 2, 1), (5, 3, 2)])
def test_the_cost_of_any_mpc_is_as_the_formulas_have_it(machines, words, rounds):
    theorem, sort, grid = mpc_cost(machines, words, rounds)
    cells = machines * words
    assert theorem == Resources("Theorem 5.1", machines + 1, 2 * rounds * log(machines), 2 * words)
    assert (sort.nodes, grid.nodes) == (machines + 2 * cells + 1, machines + cells**2 + 1)
    assert sort.layers == rounds * (4 + log(2 * cells) * (log(2 * cells) + 1))
    assert grid.layers == rounds * (3 + log(cells))


@pytest.mark.parametrize(("nodes", "layers"), [(1, 1), (2, 3), (9, 4)])
def test_the_cost_of_any_standard_transformer_is_as_the_formulas_have_it(nodes, layers):
    remark, simulation = transformer_cost(nodes, layers)
    assert (remark.nodes, remark.layers) == (nodes**2, layers * max(1, log(nodes)))
    assert simulation.nodes == nodes**2 + nodes + 1
    assert simulation.layers == 2 + layers * (3 + 2 * log(nodes) + 2)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (-3, 1, 1), (65, 2, 1)])
def test_sizes_that_cannot_be_counted_are_refused(sizes):
    with pytest.raises(PosattnError):
        mpc_cost(*sizes)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-3, 1), (129, 1)])
def test_transformers_that_cannot_be_counted_are_refused(sizes):
    with pytest.raises(PosattnError):
        transformer_cost(*sizes)


def test_more_rounds_or_layers_than_can_be_written_out_are_refused():
    with pytest.raises(PosattnError, match="rounds=1000000000: at most 1000"):
        mpc_cost(4, 1, 10**9)
    with pytest.raises(PosattnError, match=r"layers=1000000000: .* at most 128 nodes and 1000 layers"):
        transformer_cost(4, 10**9)
