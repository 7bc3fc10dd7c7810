"""The two layouts of a model's tensors hold the same numbers, and files written before are read with equal outputs."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import safetensors.torch
import torch

import posattn
from posattn import PosattnError
from posattn.nn import Architecture, FullyConnected, Hybrid, Positional, Standard, model_of
from posattn.nn.initial_weights import Init
from posattn.nn.layout import slots, stack, unstack
from posattn.nn.module import MODELS

from .test_transforms import CASES, case, every_model


@every_model
def test_stacking_and_unstacking_are_each_others_inverse(name: str) -> None:
    model, inputs = case(name)
    weights = model.weights()
    assert {tensor: tuple(value.shape) for tensor, value in weights.items()} == model.architecture.shapes()
    assert list(weights) == list(model.architecture.shapes())
    there = unstack(model.architecture, weights)
    assert there.keys() == model.state_dict().keys() == slots(model.architecture).keys()
    assert all(torch.equal(there[tensor], held) for tensor, held in model.state_dict().items())
    back = stack(model.architecture, there)
    assert all(torch.equal(back[tensor], held) for tensor, held in weights.items())
    assert torch.equal(model_of(model.architecture, weights)(*inputs), model(*inputs))


@every_model
def test_first_weights_are_those_of_the_architecture_and_leave_the_global_generator_alone(name: str) -> None:
    kind, options, _ = CASES[name]
    before = torch.get_rng_state()
    model = getattr(posattn.nn, kind)(**options, generator=torch.Generator().manual_seed(7))
    assert torch.equal(torch.get_rng_state(), before)
    drawn = model.architecture.init(torch.Generator().manual_seed(7))
    assert all(torch.equal(model.weights()[tensor], value) for tensor, value in drawn.items())


#: Σ cos(i)·w_i over all numbers that seed 0 gave before models had submodules. The last bit of a drawn number depends
#: on the CPU's instructions; a sum of 500 of them, each below 1, by at most 500·2⁻²⁴.
FIRST = [
    (11.079807, Positional(length=3, embed_dim=4, hidden_dim=5, layers=2, mlp_layers=3)),
    (-2.560078, Standard(length=3, embed_dim=4, hidden_dim=5, layers=2, bias=False)),
    (-6.255009, Hybrid(length=3, embed_dim=4, hidden_dim=5, layers=1, encoding="near-orthogonal")),
    (-0.054039, FullyConnected(length=3, dim=2, widths=(4, 3))),
]


@pytest.mark.parametrize(("total", "architecture"), FIRST, ids=lambda value: getattr(value, "kind", ""))
def test_a_seeds_first_weights_are_what_they_have_always_been(total: float, architecture: Architecture) -> None:
    model = model_of(architecture, architecture.init(torch.Generator().manual_seed(0)))
    drawn = torch.cat([tensor.detach().double().flatten() for tensor in model.weights().values()])
    found = (drawn * torch.arange(len(drawn)).double().cos()).sum().item()
    assert found == pytest.approx(total, abs=500 * 2**-24 + 1e-6)


def test_attention_and_maps_lie_where_pytorch_puts_them() -> None:
    model, _ = case("positional")
    weights, held = model.weights(), model.state_dict()
    assert torch.equal(held["layers.1.attention.query.weight"], weights["query_weight"][1].mT)
    assert torch.equal(held["layers.0.mlp_middle.0.bias"], weights["mlp_middle_bias"][0, 0])
    assert torch.equal(held["encoder.weight"], weights["encoder_weight"].mT)
    gpt, _ = case("gpt")
    assert torch.equal(gpt.state_dict()["token_embedding.weight"], gpt.weights()["token_embedding"])


@pytest.mark.parametrize(("task", "name"), [name for name in posattn.zoo.of_lists() if name[1] != "looped"])
def test_models_of_the_zoo_were_saved_stacked_and_compute_what_their_tensors_say(task: str, name: str) -> None:
    """The files were written when a model held its tensors stacked; the answer is computed here from the file alone."""
    path = Path(posattn.zoo.__file__).parent / "weights" / f"{task}-{name}.safetensors"
    p = {key: value.double() for key, value in safetensors.torch.load_file(path).items()}
    model = posattn.zoo.load(task, name).double()
    x = torch.empty(5, 8, 1, dtype=torch.float64).uniform_(-2, 2, generator=torch.Generator().manual_seed(1))
    none = torch.zeros(len(p["query_weight"]), 1, dtype=torch.float64)

    def bias(name: str, layer: int = 0) -> torch.Tensor:
        held = p.get(f"{name}_bias", none)
        return held[layer] if held.dim() == 2 else held

    nodes = torch.cat([x, torch.zeros(5, 1, 1, dtype=torch.float64)], dim=1)
    if name == "standard":
        nodes = torch.cat([nodes, p["encoding"].expand(5, -1, -1)], dim=2)
    state = nodes @ p["encoder_weight"] + bias("encoder")
    for layer in range(len(p["query_weight"])):
        seen = state if name == "standard" else p["encoding"].expand(5, -1, -1)
        width = seen.shape[2]
        read = []
        for head in range(2):
            part = slice(head * width, (head + 1) * width)
            query = seen @ p["query_weight"][layer][:, part] + p["query_bias"][layer][part]
            key = seen @ p["key_weight"][layer][:, part] + p["key_bias"][layer][part]
            weights = torch.softmax(query @ key.mT / width**0.5, dim=-1)
            value = (state @ p["value_weight"][layer] + bias("value", layer)).chunk(2, dim=2)[head]
            read.append(weights @ value)
        attended = torch.cat(read, dim=2) @ p["output_weight"][layer] + bias("output", layer)
        hidden = torch.cat([state, attended], dim=2) @ p["mlp_in_weight"][layer] + bias("mlp_in", layer)
        state = hidden.clamp(min=0) @ p["mlp_out_weight"][layer] + bias("mlp_out", layer)
    expected = (state @ p["decoder_weight"] + bias("decoder"))[:, :8]
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-12)


def test_a_saved_file_holds_the_stacked_layout_that_earlier_versions_read(tmp_path: Path) -> None:
    model, inputs = case("standard")
    model.save(tmp_path / "model.safetensors")
    held = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in held.items()} == model.architecture.shapes()
    with safetensors.safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        assert file.metadata()["posattn"] == "1"
        assert json.loads(file.metadata()["architecture"])["kind"] == "standard"
    assert torch.equal(posattn.load(tmp_path / "model.safetensors")(*inputs), model(*inputs))


def test_a_copy_and_its_original_share_no_memory() -> None:
    model, _ = case("hybrid")
    assert MODELS["hybrid"] is type(model)
    twin = model_of(model.architecture, model.weights())
    pointers = {tensor.data_ptr() for tensor in model.state_dict().values()}
    assert pointers.isdisjoint(tensor.data_ptr() for tensor in twin.state_dict().values())
    assert pointers.isdisjoint(tensor.data_ptr() for tensor in copy.deepcopy(model).state_dict().values())


def test_the_scale_of_a_normalisation_is_not_transposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posattn.nn.architecture.ARCHITECTURES", {})  # the kind is known in this test alone

    @dataclass(frozen=True, kw_only=True)
    class Normed(Architecture):
        kind = "normed, of a test"

        def parameters(self) -> dict[str, Init]:
            return {"norm_weight": Init((3,)), "map_weight": Init((3, 2), normal=1.0)}

    found = unstack(Normed(), Normed().init(torch.Generator().manual_seed(0)))
    assert {name: tuple(tensor.shape) for name, tensor in found.items()} == {"norm.weight": (3,), "map.weight": (2, 3)}


def test_a_kind_of_posattns_own_cannot_be_taken() -> None:
    with pytest.raises(PosattnError, match=r"kind='positional' of Mine .* choose another"):

        class Mine(Architecture):
            kind = "positional"

    assert type(posattn.zoo.load("sum", "positional").architecture) is Positional
