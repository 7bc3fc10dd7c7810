"""Hops by tables: against the formula, one node at a time; with weights that solve the task; and their symmetry."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn import tasks
from posattn.errors import PosattnError
from posattn.nn import HopTables, HopTablesModel, from_json, load
from posattn.tasks.khop import KHopTask


def made(**options: Any) -> HopTablesModel:
    return HopTablesModel(**options, generator=torch.Generator().manual_seed(0)).double()


def drawn(count: int, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and answers."""
    (tokens,), target = KHopTask(**options).sample(count, generator=torch.Generator().manual_seed(1))
    return tokens, target


def maps(model: HopTablesModel, name: str) -> tuple[Any, Any]:
    """Both linear maps of an MLP."""
    return model.get_submodule(f"{name}_first"), model.get_submodule(f"{name}_last")


def mlp(model: HopTablesModel, name: str, *seen: float) -> float:
    """An MLP, one unit at a time."""
    first, last = maps(model, name)
    total = 0.0 if last.bias is None else last.bias.item()
    for unit, out in enumerate(last.weight[0].tolist()):
        bias = 0.0 if first.bias is None else first.bias[unit].item()
        total += out * max(0.0, bias + sum(w * s for w, s in zip(first.weight[unit].tolist(), seen, strict=True)))
    return total


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_hand(model: HopTablesModel, tokens: list[int]) -> list[list[float]]:
    sizes, nodes = model.architecture, range(len(tokens))
    letters, values = range(sizes.letters), range(sizes.letters + 1)  # the last value is “missing”
    own = [[float(i > 0 and tokens[i] == a) for a in letters] for i in nodes]
    found = [[*own[i], float(i == 0)] for i in nodes]
    for hop in range(1, sizes.hops + 1):
        tables = []
        for i in nodes:
            gates = [mlp(model, "enter", own[i - 1][a] if i else 0.0, float(i == 0)) for a in letters]
            tables.append([[math.tanh(gate) * number for number in found[i]] for gate in gates])
        shift = 1
        while shift < len(tokens):
            joined = []
            for i in nodes:
                table = tables[i]
                for head in range(1, sizes.heads + 1):
                    at = i - head * shift
                    read = tables[at] if at >= 0 else [[0.0 for _ in values] for _ in letters]
                    gates = [sigmoid(mlp(model, "join", sum(table[a]), sum(read[a]))) for a in letters]
                    table = [[table[a][b] + gates[a] * (read[a][b] - table[a][b]) for b in values] for a in letters]
                joined.append(table)
            tables, shift = joined, shift * (sizes.heads + 1)
        after = []
        for i in nodes:
            looked_up = [math.tanh(mlp(model, "look", own[i][a])) for a in letters]
            more = sigmoid(mlp(model, "hop", float(i > 0 and tokens[0] - sizes.letters >= hop)))
            seen = [sum(looked_up[a] * tables[i][a][b] for a in letters) for b in values]
            after.append([found[i][b] + more * (seen[b] - found[i][b]) for b in values])
        found = after
    missing, blank = sizes.vocabulary - 2, sizes.vocabulary - 1
    answers = []
    for i in nodes:
        of_tokens = {**dict(enumerate(found[i][:-1])), missing: found[i][-1]}
        answers.append(
            [mlp(model, "answer", of_tokens.get(b, 0.0), float(i == 0), float(b == blank)) for b in range(blank + 1)]
        )
    return answers


def solving(**options: Any) -> HopTablesModel:
    """Weights that do what the names of the MLPs say: gates are 0 or 1 up to e⁻³⁰, and a found token has logit 30."""
    model = made(**options, hidden_dim=2)
    rows: dict[str, tuple[list[list[float]], list[float]]] = {
        "enter": ([[30, 0], [0, 30]], [1, 1]),
        "join": ([[60, 0], [0, 0]], [-1, 0]),  # 30 − 60·(what is there)
        "look": ([[30], [0]], [1, 0]),
        "hop": ([[60], [0]], [1, 0]),  # 60·asked − 30
        "answer": ([[30, 0, 0], [0, 60, 60]], [1, 1]),  # 60 for the blank, at node 0
    }
    biases = {"join": ([0.0, 0.0], 30.0), "hop": ([0.0, 0.0], -30.0), "answer": ([0.0, -60.0], 0.0)}
    with torch.no_grad():
        for name, (into, out) in rows.items():
            first, last = maps(model, name)
            first.weight.copy_(torch.tensor(into))
            last.weight.copy_(torch.tensor([out]))
            if name in biases:
                first.bias.copy_(torch.tensor(biases[name][0]))
                last.bias.fill_(biases[name][1])
    return model


@pytest.mark.parametrize(("heads", "nodes"), [(1, 1), (1, 2), (1, 6), (2, 7), (4, 6), (4, 9)])
def test_it_is_its_formula(heads: int, nodes: int) -> None:
    model = made(letters=3, hops=2, heads=heads, hidden_dim=5)
    generator = torch.Generator().manual_seed(nodes)
    text = torch.randint(3, (3, nodes - 1), generator=generator)
    tokens = torch.cat([torch.tensor([[3], [4], [5]]), text], dim=1)
    wanted = torch.tensor([by_hand(model, row) for row in tokens.tolist()], dtype=torch.float64)
    # about a thousand roundings of numbers around 1
    torch.testing.assert_close(model(tokens), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 4, 9])
@pytest.mark.parametrize(("characters", "max_hops"), [(1, 1), (20, 3), (98, 3), (130, 5)])
def test_some_weights_find_every_letter(heads: int, characters: int, max_hops: int) -> None:
    tokens, target = drawn(20, letters=4, held_out_letters=0, characters=characters, max_hops=max_hops)
    model = solving(letters=4, hops=max_hops, heads=heads)
    with torch.no_grad():
        assert torch.equal(model(tokens).argmax(-1), target)


@settings(max_examples=20)
@given(st.permutations(range(5)))
def test_letters_may_be_renamed(names: list[int]) -> None:
    tokens, _ = drawn(3, letters=5, held_out_letters=0, characters=12, max_hops=2)
    model, others = made(letters=5, hops=2), list(range(5, 10))
    renamed = model(torch.tensor(names + others)[tokens])
    # the order of sums over letters changes: about a thousand roundings of numbers around 1
    torch.testing.assert_close(renamed[..., names + others], model(tokens), rtol=0, atol=1e-12)


def test_no_node_reads_a_later_one() -> None:
    tokens, _ = drawn(4, letters=5, held_out_letters=5)
    other = tokens.clone()
    other[:, 40:] = (other[:, 40:] + 3) % 10
    model = made()
    before, after = model(tokens), model(other)
    # a product may add up in another order: about a thousand roundings of numbers around 1
    torch.testing.assert_close(before[:, :40], after[:, :40], rtol=0, atol=1e-12)
    assert (before[:, 40:] - after[:, 40:]).abs().amax() > 1e-6


def test_a_layer_less_does_not_reach_far_enough() -> None:
    """Layers are counted as nodes need them: 5³ = 125 nodes are within reach of three layers, 126 of four."""
    assert [HopTables(hops=1).layers(nodes) for nodes in (1, 2, 5, 6, 25, 26, 99, 125, 126)] == [
        1, 2, 2, 3, 3, 4, 4, 4, 5,
    ]  # fmt: skip
    assert HopTables().layers(99) == 10


def test_a_file_and_a_text_give_the_model_back(tmp_path) -> None:
    model = made(letters=4, hops=2)
    model.save(tmp_path / "tables.safetensors")
    back = load(tmp_path / "tables.safetensors")
    assert all(torch.equal(back.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    assert from_json(model.architecture.to_json()) == model.architecture
    trace = model.trace(torch.tensor([[5, 0, 1, 0]]))
    assert [step.name for step in trace] == ["found.0", "found.1", "answer"]
    assert [step.state.shape for step in trace] == [(1, 4, 5), (1, 4, 5), (1, 4, 9)]


@pytest.mark.parametrize("name", ["letters", "hops", "heads", "hidden_dim"])
def test_what_cannot_be_built_is_refused(as_users_run_it: None, name: str) -> None:
    wrong: dict[str, Any] = {name: 0}
    with pytest.raises(PosattnError, match=f"{name}=0"):
        HopTables(**wrong)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (torch.zeros(2, 0, dtype=torch.int64), r"\(batch, at least 1\), int64"),
        (torch.zeros(2, dtype=torch.int64), r"\(batch, at least 1\), int64"),
        (torch.zeros(2, 3), "int64"),
        (torch.tensor([[2, 0, 1]]), "token 0 is 2: of 3 letters and up to 2 hops, token 0 is 3 plus"),
        (torch.tensor([[6, 0, 1]]), "token 0 is 6"),
        (torch.tensor([[3, 0, 3]]), "a letter is 3"),
        (torch.tensor([[3, -1, 0]]), "a letter is -1"),
    ],
)
def test_what_it_cannot_take_is_refused(as_users_run_it: None, tokens: torch.Tensor, said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        made(letters=3, hops=2).float()(tokens)


def test_a_small_task_is_learned() -> None:
    """The study `khop-depth` trains the whole of it. Every one of ten seeds finds all letters after 100 steps."""
    task = tasks.get("khop", letters=3, held_out_letters=2, characters=8, max_hops=1)
    generator = torch.Generator().manual_seed(1)
    model = HopTablesModel(letters=5, hops=1, generator=generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(100):
        (tokens,), target = task.sample(16, generator=generator)
        optimiser.zero_grad()
        task.loss(model(tokens), target).backward()
        optimiser.step()
    for options in ({"hops": 1}, {"held_out": True}):
        (tokens,), target = task.sample(500, generator=generator, **options)
        with torch.no_grad():
            assert task.metric(model(tokens), target) > 0.99
