"""Attention of looped models as matrices, against what a forward pass makes of its input."""

import pytest
import torch

from posattn import PosattnError
from posattn.nn import Action, LoopedPositionalTransformer
from posattn.nn.looped_step import combined

OWN = Action(((1,), (-1,), (0,)))  # the sum stays, so no number carries the answer
PATHS = Action(((1, 0), (1, -1), (0, 1), (1, 0)))


def model(schedule, symmetry, **options):
    generator = torch.Generator().manual_seed(0)
    return LoopedPositionalTransformer(schedule=schedule, symmetry=symmetry, **options, generator=generator).double()


def weighing(schedule, translation):
    """A model whose MLP passes on its one head: a step is the weighted sum that attention says."""
    made = model(schedule, ("linear", translation), heads=1, hidden_dim=1, mlp_layers=2)
    weights = {name: torch.ones_like(held) for name, held in made.state_dict().items() if name != "logits"}
    made.load_state_dict(weights | {"logits": made.logits.data})
    return made


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def places(schedule, iteration, length):
    """The rows of every number that node (i, j) or node i reads, in the order of the step."""
    node, side = torch.arange(length), round(length**0.5)
    if schedule == "pairs":
        return torch.stack([node, node // side * side + iteration, iteration * side + node % side], dim=1)
    partner = node - 2**iteration if schedule == "scan" else node ^ (1, 3, 1, 7, 2, 1)[iteration]
    return torch.stack([node, torch.where((partner < 0) | (partner >= length), node, partner)], dim=1)


@pytest.mark.parametrize(
    ("schedule", "symmetry", "length"),
    [
        ("scan", ("scale", "shift"), 6),
        ("scan", ("scale",), 6),
        ("scan", ("scale", OWN), 6),
        ("bitonic", ("scale", "shift"), 6),
        ("bitonic", (), 6),
        ("pairs", ("scale", "potential"), 9),
        ("pairs", ("scale", PATHS), 9),
        ("pairs", ("scale",), 9),
    ],
)
def test_heads_are_what_attention_reads_less_the_carrier(schedule, symmetry, length):
    made, state = model(schedule, symmetry, heads=3), draw(1, length, 1)
    attention = made.attention(length)
    for iteration, (matrices, (after, _)) in enumerate(zip(attention, made._iterations(state), strict=True)):
        read = places(schedule, iteration, length)
        alone = (read[:, -1] == read[:, 0]) & (schedule != "pairs")
        carried = combined(state[:, read], (made.kinds[0][1],))[0, :, 0]
        heads = (matrices @ state[0] - carried).squeeze(-1).T
        moved = carried + made._mlp(heads)
        torch.testing.assert_close(torch.where(alone[:, None], state[0], moved), after[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(matrices[:, alone] @ state[0], state[0, alone].expand(3, -1, 1), rtol=0, atol=0)
        state = after


@pytest.mark.parametrize(("schedule", "translation"), [("pairs", "shift"), ("pairs", "potential"), ("scan", "shift")])
def test_an_iteration_of_a_model_that_passes_on_its_head_is_the_matrix(schedule, translation):
    made, state = weighing(schedule, translation), draw(2, 16, 1)
    attention = made.attention(16)
    for matrices, (after, _) in zip(attention, made._iterations(state), strict=True):
        torch.testing.assert_close(matrices[0] @ state, after, rtol=0, atol=1e-12)
        state = after
    if translation == "shift":
        torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention[..., 0]))


def test_a_cell_of_a_table_is_the_weighted_mean_of_its_candidates():
    side = 4
    made, x = weighing("grid", "potential"), draw(1, side * side, 3)
    ((attention,),), found = made.attention(side * side), made(x).flatten()
    across, above, left = x[0].unbind(1)
    for node in range(side * side):
        costs = {node - side - 1: across[node], node - side: above[node], node - 1: left[node], node: across[0]}
        read = attention[node].nonzero().flatten().tolist()
        inner = node >= side and node % side
        wanted = [node - side - 1, node - side, node - 1] if inner else [max(0, node - (1 if node < side else side))]
        assert read == wanted
        total = sum(attention[node, q] * (costs[q] + (found[q] if node else 0)) for q in read)
        torch.testing.assert_close(found[node], total, rtol=0, atol=1e-12)


@pytest.mark.parametrize("translation", ["shift", "potential"])
def test_what_is_read_is_where_the_weight_is_not_zero(translation):
    """By derivatives of an iteration, with several heads and an MLP that is not linear."""
    made, state = model("pairs", ("scale", translation)), draw(1, 9, 1)
    for iteration, matrices in enumerate(made.attention(9)):

        def once(x, iteration=iteration):
            read = [x[:, places("pairs", iteration, 9)[:, place]] for place in range(3)]
            if translation == "potential":
                return made._step(torch.stack(read, dim=2), 0, 0)
            joined = made._step(torch.stack(read[1:], dim=2), 0, 0)
            return made._step(torch.stack([read[0], joined], dim=2), 1, 0)

        touched = torch.func.jacrev(once)(state).reshape(9, 9) != 0
        assert torch.equal(touched, (matrices != 0).any(0))


def test_a_trace_shows_attention_of_small_inputs_and_goes_without_for_large_ones():
    made = model("pairs", ("scale", "shift"))
    steps = made.trace(draw(2, 9, 1))
    assert [step.name for step in steps] == ["iteration 1", "iteration 2", "iteration 3", "answer"]
    torch.testing.assert_close([step.attention for step in steps[:3]], list(made.attention(9)), rtol=0, atol=0)
    table = model("grid", ("scale", "potential"))
    torch.testing.assert_close(table.trace(draw(1, 9, 3))[0].attention, table.attention(9)[0], rtol=0, atol=0)
    assert all(step.attention is None for step in made.trace(draw(1, 40**2, 1)))


@pytest.mark.parametrize(
    ("schedule", "length", "said"),
    [
        ("pairs", 1600, "length=1600: 40 iterations of 2 heads have too many weights"),
        ("scan", 65_536, "Use a smaller length"),
        ("pairs", 8, "n·n"),
        ("grid", 8, "square table"),
    ],
)
def test_matrices_that_are_too_large_or_of_no_input_are_refused(schedule, length, said):
    translation = "shift" if schedule == "scan" else "potential"
    with pytest.raises(PosattnError, match=said):
        model(schedule, ("scale", translation)).attention(length)
