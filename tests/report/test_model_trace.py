"""Models at work: what a page holds is what the model computes, and what stands behind it adds up."""

import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from posattn import nn, report, zoo
from posattn.errors import PosattnError
from posattn.html.trace import Trace, trace_page
from posattn.report.model_trace import NUMBER, SIZE, model_text, model_trace

FIVE = torch.tensor([[3.0], [1], [2], [5], [4]])


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def looped(schedule: str, *symmetry: str, **options: Any) -> nn.LoopedPositionalTransformer:
    return nn.LoopedPositionalTransformer(schedule=schedule, symmetry=symmetry, generator=seeded(), **options)


def held(trace: Trace, frame: int, name: str = NUMBER) -> Tensor:
    return torch.tensor(list(trace.frames[frame].registers[name]))


@pytest.mark.parametrize("model", ["standard", "positional", "homogeneous"])
def test_the_last_layer_of_a_zoo_model_holds_its_answer(model):
    made = zoo.load("sort", model)
    trace = model_trace(made, FIVE)
    with torch.no_grad():
        answer = made(FIVE[None])[0, :, 0]
    assert len(trace.frames) == 1 + len(made.layers)
    torch.testing.assert_close(held(trace, -1)[:5], answer)
    assert held(trace, 0).tolist() == [3, 1, 2, 5, 4, 0]  # the scratchpad's 0 last


def test_a_layers_number_is_the_decoders_reading_of_its_state_and_its_size_the_states():
    made = zoo.load("sum", "positional")
    trace, steps = model_trace(made, FIVE), made.trace(FIVE[None])
    for place, step in enumerate(steps[1:-1], 1):
        weight, bias = (made.get_parameter(f"decoder.{name}").detach() for name in ("weight", "bias"))
        torch.testing.assert_close(held(trace, place), step.state[0] @ weight[0] + bias)
        torch.testing.assert_close(held(trace, place, SIZE), step.state[0].pow(2).mean(1).sqrt())


@pytest.mark.parametrize("model", ["standard", "positional"])
def test_reads_are_the_attention_that_led_there_beside_the_number_before(model):
    made = zoo.load("sort", model)
    trace, steps = model_trace(made, FIVE), made.trace(FIVE[None])
    for place, step in enumerate(steps[1:-1], 1):
        assert step.attention is not None
        attention = step.attention.reshape(2, 6, 6)
        reads = trace.frames[place].reads
        found = torch.zeros(2, 6, 6)
        for source, node, word, weight, head in reads:
            found[head, node, source] = weight
            assert word == held(trace, place - 1)[source]
        torch.testing.assert_close(found, torch.where(attention >= 0.005, attention, 0.0))


def test_inside_a_layer_the_mlp_leads_from_what_it_takes_to_the_next_state():
    made = zoo.load("sort", "positional")
    layer, inside = made.layers[1], model_trace(made, FIVE).frames[2].inside
    assert list(inside) == ["state before", "attention brings", "MLP, hidden", "state after"]
    before, brought, hidden, after = (torch.tensor(rows) for rows in inside.values())
    with torch.no_grad():
        units = layer.get_submodule("mlp_in")(torch.cat([before, brought], 1)).relu()
        torch.testing.assert_close(hidden, units)
        torch.testing.assert_close(after, layer.get_submodule("mlp_out")(units))


@pytest.mark.parametrize("schedule", ["scan", "bitonic"])
def test_a_looped_models_iterations_end_in_its_answer_and_each_is_carrier_plus_mlp(schedule):
    made = looped(schedule, "scale", "shift")
    trace = model_trace(made, FIVE)
    assert trace.step == "iteration"
    torch.testing.assert_close(held(trace, -1), made(FIVE[None]).detach()[0, :, 0])
    for frame, before in zip(trace.frames[1:], trace.frames, strict=False):
        (update,) = frame.updates
        words = {name: torch.tensor(list(values)) for name, values in update.words.items()}
        assert words["carrier"].tolist() == list(before.registers[NUMBER])  # under a shift, the node's own number
        torch.testing.assert_close(words["carrier"] + words["MLP(seen)"], torch.tensor(list(frame.registers[NUMBER])))
        partners = {node: source for source, node, *_ in frame.reads if source != node}
        for node in range(5):
            partner = before.registers[NUMBER][partners.get(node, node)]
            assert words["seen"][node] == pytest.approx(partner - before.registers[NUMBER][node], abs=1e-6)


def test_a_graphs_nodes_read_the_two_legs_of_a_path():
    made = looped("pairs", "scale", "potential")
    x = torch.tensor([0.0, 1, 5, 2, 0, 1, 1, 3, 0])[:, None]
    trace = model_trace(made, x)
    torch.testing.assert_close(held(trace, -1), made(x[None]).detach()[0, :, 0])
    for k, frame in enumerate(trace.frames[1:]):
        pairs = {(node, head): source for source, node, _, _, head in frame.reads}
        assert pairs == {(3 * i + j, h): (3 * i + k, 3 * k + j)[h] for i in range(3) for j in range(3) for h in (0, 1)}


def test_a_state_of_several_numbers_ends_in_the_answer_that_is_read_from_it():
    made = looped("scan", "scale", state_dim=3)
    trace = model_trace(made, FIVE)
    assert list(trace.frames[0].registers) == [NUMBER, "state 2", "state 3"]
    torch.testing.assert_close(held(trace, -1), made(FIVE[None]).detach()[0, :, 0])
    assert trace.frames[-1].note == "the answer, read from the state"


def test_a_table_of_three_numbers_a_node_is_traced_too():
    made = looped("grid", "scale", "potential")
    x = torch.tensor([[0.0, 1, 1], [1, 1, 1], [2, 1, 1], [0, 1, 2]])
    torch.testing.assert_close(held(model_trace(made, x), -1), made(x[None]).detach()[0, :, 0])


def test_the_text_shows_every_step_and_the_exact_answer():
    text = model_text(model_trace(zoo.load("sort", "homogeneous"), FIVE, exact=FIVE[:, 0].sort().values))
    lines = text.splitlines()
    assert lines[0] == "positional model on 5 numbers"
    assert lines[1].split() == ["input", "3", "1", "2", "5", "4"]
    assert lines[-1].split() == ["exact", "1", "2", "3", "4", "5"]
    assert len(lines) == 1 + 1 + 4 + 1


def test_the_page_holds_the_trace():
    trace = model_trace(zoo.load("sort", "positional"), FIVE, exact=FIVE[:, 0].sort().values, title="a <b> model")
    page = trace_page(trace)
    assert page == report.model_page(
        zoo.load("sort", "positional"), FIVE, exact=FIVE[:, 0].sort().values, title="a <b> model"
    )
    assert "<h1>a &lt;b&gt; model on 5 numbers</h1>" in page
    assert "Node 5 is the scratchpad." in page
    found = re.search(r"^const data = (.*);$", page, re.MULTILINE)
    assert found is not None
    data = json.loads(found[1])
    assert data["exact"] == [1, 2, 3, 4, 5]
    assert data["frames"][4]["registers"][NUMBER] == pytest.approx(held(trace, 4).tolist(), rel=1e-5)


def test_models_for_anything_else_are_refused():
    with pytest.raises(PosattnError, match="the model is a Linear: models for lists of numbers can be traced"):
        report.model_page(torch.nn.Linear(1, 1), FIVE)  # pyright: ignore[reportArgumentType]


# ---- attention


def test_the_attention_page_holds_every_weight():
    model = zoo.load("sort", "positional")
    assert isinstance(model, nn.PositionalTransformer)
    attention = model.attention().detach()
    page = report.attention_page(attention, title="sort & co")
    assert "<h1>sort &amp; co</h1>" in page
    found = re.search(r"^const data = (.*);$", page, re.MULTILINE)
    assert found is not None
    torch.testing.assert_close(torch.tensor(json.loads(found[1])["attention"]), attention, atol=6e-5, rtol=0)


def test_attention_of_positions_needs_no_input_and_that_of_values_does():
    positional, standard = zoo.load("sort", "positional"), zoo.load("sort", "standard")
    assert isinstance(positional, nn.PositionalTransformer)
    torch.testing.assert_close(report.attention_of(positional, FIVE), positional.attention(5).detach())
    assert report.attention_of(standard, FIVE).shape == (4, 2, 6, 6)
    assert not torch.equal(report.attention_of(standard, FIVE), report.attention_of(standard, FIVE.flip(0)))


def test_too_much_attention_for_a_page_is_refused():
    with pytest.raises(PosattnError, match=r"holds 4,194,304 weights: a page shows up to 524,288\. Use a shorter"):
        report.attention_page(torch.zeros(1, 1, 2048, 2048), title="long")


def test_under_a_shift_a_layers_number_is_its_carrier():
    made = nn.PositionalTransformer(symmetry=("scale", "shift"), layers=2, generator=torch.Generator().manual_seed(0))
    x = torch.tensor([[1003.0], [1001.0], [1002.0]])
    trace, answers = model_trace(made, x), made(x[None])[0, :, 0].detach()
    torch.testing.assert_close(held(trace, 2)[:3], answers)
