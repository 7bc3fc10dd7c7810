"""Every model composes with PyTorch: torch.func, compile, export, copies, hooks and submodules."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import posattn.nn
from posattn import PosattnError
from posattn.compile import compile, library
from posattn.nn.module import MODELS
from posattn.nn.token_encodings import STEP, _wrapped

from . import oracle

SIZES = {"length": 5, "embed_dim": 6, "heads": 2, "layers": 2, "hidden_dim": 7}
TOKENS = {"vocabulary": 7, "length": 5, "embed_dim": 6, "heads": 2, "layers": 2}
MIXED = {"length": 7, "characters": 4, "vocabulary": 11, "embed_dim": 6, "layers": 2, "hidden_dim": 7}


def numbers() -> tuple[Tensor, ...]:
    return (oracle.numbers(3, 5, 1),)


def placed() -> tuple[Tensor, ...]:
    return oracle.numbers(3, 3, 1), torch.tensor([[0, 1, 4], [0, 2, 3], [1, 2, 4]])


def tokens() -> tuple[Tensor, ...]:
    return (torch.arange(15).reshape(3, 5) % 7,)


def hops() -> tuple[Tensor, ...]:
    return (torch.tensor([[4, 0, 1, 0, 2], [3, 2, 1, 2, 1], [5, 1, 0, 1, 0]]),)


def mixed() -> tuple[Tensor, ...]:
    return torch.arange(12).reshape(3, 4) % 11, oracle.numbers(3, 3)


def selection() -> tuple[Tensor, ...]:
    return oracle.numbers(3, 5, 2), torch.tensor([[0, 2], [4, 1], [3, 0]]), torch.tensor([5, 6, 7])


#: Three numbers, each with two places of its label, where one pair of characters is compared.
GATED = tuple((((number, 3),), ((number, 1),)) for number in range(3))
#: A model of every kind: its class, its options, and inputs of three samples.
CASES: dict[str, tuple[str, dict[str, Any], Callable[[], tuple[Tensor, ...]]]] = {
    "positional": ("PositionalTransformer", SIZES | {"mlp_layers": 3, "constants": "binary"}, numbers),
    "positional-exact": ("ExactPositionalTransformer", SIZES, numbers),
    "positional-placed": ("RandomPlacesTransformer", SIZES, placed),
    "standard-placed": ("StandardRandomPlacesTransformer", SIZES, placed),
    "standard": ("StandardTransformer", SIZES, numbers),
    "rotary": ("StandardTransformer", SIZES | {"rotary": True}, numbers),
    "alibi": ("AlibiTransformer", SIZES, numbers),
    "looped-standard": ("LoopedStandardTransformer", {"embed_dim": 6, "hidden_dim": 7}, numbers),
    "hybrid": ("HybridTransformer", SIZES, numbers),
    "mixed-positional": ("MixedPositionalTransformer", MIXED, mixed),
    "mixed-standard": ("MixedStandardTransformer", MIXED, mixed),
    "mixed-gated": ("MixedGatedModel", {"compared": GATED, "decides": (0, 3), "characters": 4, "hidden_dim": 5}, mixed),
    "hop-tables": ("HopTablesModel", {"letters": 3, "hops": 2, "heads": 2, "hidden_dim": 5}, hops),
    "gpt": ("GPT", TOKENS, tokens),
    "positional gpt": ("GPT", TOKENS | {"positional": True}, tokens),
    "selector": ("SelectorTransformer", {"length": 5, "dim": 2, "encoding_dim": 12, "deviation": 0.5}, selection),
    "fixed selector": (
        "SelectorTransformer",
        {"length": 5, "dim": 2, "encoding": "near-orthogonal", "encoding_dim": 12, "deviation": 0.5},
        selection,
    ),
    "looped": ("LoopedPositionalTransformer", {"symmetry": ("scale", "shift"), "hidden_dim": 5}, numbers),
    "looped-slopes": ("LoopedSlopesModel", {"schedule": "bitonic"}, numbers),
    "connected": ("FullyConnectedNetwork", {"length": 5, "dim": 2, "widths": (4, 3)}, selection),
}

every_model = pytest.mark.parametrize("name", CASES)


def case(name: str) -> tuple[posattn.nn.Model, tuple[Tensor, ...]]:
    """A model in float64 with weights that are all different from 0, and its inputs."""
    kind, options, inputs = CASES[name]
    model = getattr(posattn.nn, kind)(**options, generator=torch.Generator().manual_seed(3)).double()
    generator = torch.Generator().manual_seed(4)
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return model, tuple(x.double() if x.is_floating_point() else x for x in inputs())


def of_weights(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The answers as a function of one small tensor of weights, so that it can be differentiated for any input."""
    name, weight = min(model.named_parameters(), key=lambda entry: entry[1].numel())
    return lambda value: torch.func.functional_call(model, {name: value}, inputs), weight.detach()


def test_there_is_a_case_of_every_kind() -> None:
    assert {getattr(posattn.nn, kind).describes.kind for kind, _, _ in CASES.values()} == set(MODELS)


@every_model
def test_jacrev_equals_one_backward_pass_per_output(name: str) -> None:
    model, inputs = case(name)
    function, weight = of_weights(model, inputs)
    jacobian = torch.func.jacrev(function)(weight)
    leaf = weight.clone().requires_grad_()
    rows = [torch.autograd.grad(y, leaf, retain_graph=True)[0] for y in function(leaf).flatten()]
    torch.testing.assert_close(jacobian.flatten(0, -1 - weight.dim()), torch.stack(rows), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # PyTorch's own, in jacfwd
@every_model
def test_hessian_equals_a_difference_of_gradients(name: str) -> None:
    model, inputs = case(name)
    function, weight = of_weights(model, inputs)

    def total(value: Tensor) -> Tensor:
        return function(value).square().sum()

    hessian = torch.func.hessian(total)(weight).reshape(weight.numel(), -1)
    direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(5), dtype=weight.dtype)
    gradient = torch.func.grad(total)
    step = 1e-6
    moved = (gradient(weight + step * direction) - gradient(weight - step * direction)) / (2 * step)
    torch.testing.assert_close(hessian @ direction.flatten(), moved.flatten(), rtol=1e-5, atol=1e-6)


@every_model
def test_vmap_over_inputs_equals_a_loop(name: str) -> None:
    model, inputs = case(name)
    stacked = [torch.stack([x, x.flip(0)]) for x in inputs]
    together = torch.vmap(lambda *one: model(*one))(*stacked)
    torch.testing.assert_close(together, torch.stack([model(*one) for one in zip(*stacked, strict=True)]))


@every_model
def test_vmap_over_weights_is_an_ensemble(name: str) -> None:
    model, inputs = case(name)
    members: list[nn.Module] = [model, copy.deepcopy(model)]
    for weight in members[1].parameters():
        weight.data *= 0.9
    params, buffers = torch.func.stack_module_state(members)

    def one(p: dict[str, Tensor], b: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, (p, b), inputs)

    together = torch.vmap(one)(params, buffers)
    torch.testing.assert_close(together, torch.stack([member(*inputs) for member in members]))


@pytest.mark.usefixtures("as_users_run_it")  # the checks of annotations are no part of the model
@every_model
def test_compile_takes_the_whole_model_and_gives_the_same(name: str) -> None:
    model, inputs = case(name)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), model(*inputs))
    torch.compiler.reset()


@every_model
def test_a_deep_copy_is_a_model_of_its_own(name: str) -> None:
    model, inputs = case(name)
    twin, before = copy.deepcopy(model), model(*inputs)
    assert torch.equal(twin(*inputs), before)
    for weight in twin.parameters():
        weight.data.zero_()
    assert torch.equal(model(*inputs), before)
    assert not torch.equal(twin(*inputs), before)


@every_model
def test_hooks_see_what_passes_and_can_change_it(name: str) -> None:
    model, inputs = case(name)
    before, (last, _) = model(*inputs), model.parts()[-1]
    seen = []
    hook = model.get_submodule(last).register_forward_hook(lambda _, __, out: seen.append(out) or 2 * out)
    after = model(*inputs)
    hook.remove()
    torch.testing.assert_close(after, 2 * before)
    torch.testing.assert_close(model(*inputs), before)
    assert len(seen) == 1


@every_model
def test_every_weight_belongs_to_a_named_submodule_or_is_the_models_own(name: str) -> None:
    model, _ = case(name)
    names = {module for module, _ in model.named_modules()}
    assert len(names) > 1
    assert all(weight.rpartition(".")[0] in names for weight, _ in model.named_parameters())


@every_model
def test_trace_gives_the_state_after_every_part_and_the_attention_that_led_there(name: str) -> None:
    model, inputs = case(name)
    steps = model.trace(*inputs)
    parts = [step.name for step in steps if not step.name.startswith("iteration ")]  # of a looped model
    assert parts == [part for part, _ in model.parts()]
    answer = model(*inputs)
    end = steps[-1].state
    kept = end[:, : answer.shape[1]] if end.dim() == answer.dim() else end
    torch.testing.assert_close(kept, answer)
    for step in steps:
        if step.attention is not None:
            torch.testing.assert_close(step.attention.sum(-1), torch.ones_like(step.attention.sum(-1)))
    attends = name not in ("connected", "looped-slopes", "mixed-gated", "hop-tables")
    assert any(step.attention is not None for step in steps) == attends


def test_a_layer_of_a_trace_is_the_formula_of_the_state_before_it() -> None:
    """x ← MLP([x ‖ W_O·concat_h(A_h·x·W_V,h)]), written out for one layer of a positional model."""
    model, (x,) = case("positional")
    before, after = model.trace(x)[1:3]
    layer: Any = model.get_submodule("layers.1")
    assert after.attention is not None
    heads = layer.value(before.state).chunk(2, dim=-1)
    attended = layer.output(torch.cat([a @ v for a, v in zip(after.attention, heads, strict=True)], dim=-1))
    hidden = torch.cat([before.state, attended], dim=-1)
    for linear in (layer.mlp_in, *layer.mlp_middle):
        hidden = linear(hidden).clamp(min=0)
    torch.testing.assert_close(after.state, layer.mlp_out(hidden))


@pytest.mark.usefixtures("as_users_run_it")
def test_values_are_checked_where_they_are_known_and_shapes_always() -> None:
    model, (x,) = case("standard")
    spoiled = x.clone()
    spoiled[0, 0] = torch.nan
    with pytest.raises(PosattnError, match="nan at"):
        model(spoiled)
    assert torch.vmap(model)(spoiled[None]).isnan().any()
    assert torch.func.jacrev(lambda batch: model(batch).sum())(spoiled).isnan().any()
    assert torch.export.export(model, (x,)).module()(spoiled).isnan().any()
    for transform in (torch.vmap(model), torch.func.jacrev(lambda batch: model(batch).sum())):
        with pytest.raises(PosattnError, match=r"shape .* takes \(batch, length, 1\)"):
            transform(torch.zeros(2, 3, 5, 2, dtype=torch.float64))


@pytest.mark.usefixtures("as_users_run_it")
def test_a_compiled_model_does_not_look_at_values() -> None:
    model, (x,) = case("hybrid")
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert compiled(torch.full_like(x, torch.nan)).isnan().all()
    torch.compiler.reset()


def test_a_model_without_values_runs_on_the_meta_device() -> None:
    model, (x,) = case("positional")
    assert copy.deepcopy(model).to("meta")(x.to("meta")).shape == x.shape


def test_a_trace_begins_with_the_state_that_the_first_layer_takes() -> None:
    for name in ("gpt", "positional gpt", "mixed-positional", "mixed-standard", "positional", "standard"):
        model, inputs = case(name)
        start, first = model.trace(*inputs)[:2]
        positional = "positional" in name
        table = "position_embedding.weight" if "gpt" in name else "encoding"
        seen = model.state_dict()[table] if positional else start.state
        torch.testing.assert_close(model.get_submodule("layers.0")(start.state, seen), first.state)


def test_a_trace_of_a_fully_connected_network_gives_what_its_relus_give() -> None:
    model, inputs = case("connected")
    *hidden, _ = model.trace(*inputs)
    assert len(hidden) == 2
    assert all((step.state >= 0).all() for step in hidden)


def test_a_trace_takes_what_forward_takes() -> None:
    model, (x,) = case("standard")
    table = model.get_buffer("encoding")
    torch.testing.assert_close(
        model.trace(x, encoding=table.flip(0))[-1].state[:, :5], model(x, encoding=table.flip(0))
    )


@every_model
def test_a_model_runs_on_the_meta_device_and_under_fake_tensors(name: str) -> None:
    model, inputs = case(name)
    shape = model(*inputs).shape
    assert copy.deepcopy(model).to("meta")(*(x.to("meta") for x in inputs)).shape == shape
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert model(*inputs).shape == shape


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")  # PyTorch's own
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # where it is the first jvp
def test_linearize_gives_the_jacobians_product() -> None:
    model, (x,) = case("positional")
    direction = oracle.numbers(*x.shape, seed=3)
    _, product = torch.func.linearize(model, x)
    torch.testing.assert_close(product(direction), torch.func.jvp(model, (x,), (direction,))[1])


def test_a_hardened_model_has_the_derivatives_of_its_model() -> None:
    model = compile(library.get("sort", 3)).model
    x = torch.tensor([[[3.0], [1.0], [2.0]]])
    torch.testing.assert_close(torch.func.jacrev(model.harden())(x), torch.func.jacrev(model)(x))


def test_the_selectors_signs_compile_where_a_compiler_bounds_every_number() -> None:
    """No constant leaves 64 bits, which a compiler that folds constants would not survive."""
    for width in (64, 65, 170, 500):
        words = -(-width // 64)
        assert all(-(2**63) <= _wrapped(STEP * word) < 2**63 for word in range(words + 1))
        assert _wrapped(STEP * words) % 2**64 == STEP * words % 2**64


@every_model
def test_a_state_dict_from_before_models_had_submodules_still_loads(name: str) -> None:
    model, inputs = case(name)
    twin = getattr(posattn.nn, CASES[name][0])(**CASES[name][1]).double()
    twin.load_state_dict(model.weights())
    assert torch.equal(twin(*inputs), model(*inputs))
