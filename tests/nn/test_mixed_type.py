"""The mixed-type pair: characters and numbers in, one answer out, read at node 0."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from posattn import MixedPositionalTransformer, MixedStandardTransformer, PosattnError, tasks
from posattn.nn import MixedStandard
from posattn.nn.fast.any_model import mapped
from posattn.nn.fast.choose import fast_form

from . import oracle

SIZES: dict[str, Any] = {"characters": 5, "length": 8, "vocabulary": 13, "embed_dim": 6, "hidden_dim": 7, "layers": 3}
BOTH = pytest.mark.parametrize("kind", [MixedPositionalTransformer, MixedStandardTransformer])


def samples(count: int, characters: int = 5, values: int = 3, vocabulary: int = 13) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, vocabulary, (count, characters), generator=generator), oracle.numbers(count, values)


def formula(model: Any, characters: list[int], values: list[float]) -> oracle.Array:
    """One sample: characters' embeddings, then the numbers', then the scratchpad's, which is a number 0."""
    w, heads, scratchpad = oracle.weights_of(model), model.architecture.heads, model.architecture.scratchpad
    rows = [w["character_embedding"][code] for code in characters]
    rows += [oracle.linear(w, "encoder", np.array([value])) for value in [*values, *[0.0] * scratchpad]]
    state = np.array(rows)
    learned_place = "position_embedding" in w
    if learned_place:
        state = state + w["position_embedding"]
    for index in range(len(w["query_weight"])):
        weights = oracle.attention(w, index, state if learned_place else w["encoding"], heads)
        state = oracle.layer(w, index, state, weights)
    return oracle.linear(w, "decoder", state[0])


def expected(model: Any, characters: Tensor, values: Tensor) -> oracle.Array:
    pairs = zip(characters.tolist(), values.tolist(), strict=True)
    return np.array([formula(model, *pair) for pair in pairs])


@BOTH
@pytest.mark.parametrize("scratchpad", [0, 1, 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mlp_layers", [2, 3])
def test_it_equals_the_formula(kind, scratchpad, bias, mlp_layers):
    model = oracle.stirred(kind(**SIZES, scratchpad=scratchpad, bias=bias, mlp_layers=mlp_layers, out_dim=2))
    inputs = samples(4)
    assert oracle.relative_error(model(*inputs), expected(model, *inputs)) < oracle.ROUNDING


@BOTH
def test_at_the_papers_sizes_it_equals_the_formula_on_the_tasks_samples(kind):
    model = oracle.stirred(kind())
    generator = torch.Generator().manual_seed(0)
    inputs, target = tasks.get("mixed-min").sample(2, generator=generator, dtype=torch.float64)
    answer = model(*inputs)
    assert answer.shape == target.shape == (2, 1)
    assert oracle.relative_error(answer, expected(model, *inputs)) < oracle.ROUNDING


@BOTH
def test_the_defaults_are_the_papers_99_nodes(kind):
    model = kind()
    shapes = oracle.shapes_of(model)
    assert model.architecture.nodes == 90 + 8 + 1
    assert shapes["character_embedding"] == (150, 32)
    assert shapes["encoder_weight"] == (1, 32)
    width = 99 if kind is MixedPositionalTransformer else 32
    assert shapes["query_weight"] == (3, width, 2 * width)
    assert shapes["mlp_in_weight"] == (3, 64, 32)
    assert shapes.get("position_embedding", (99, 32)) == (99, 32)
    assert ("position_embedding" in shapes) == (kind is MixedStandardTransformer)


@BOTH
@pytest.mark.parametrize("task", ["mixed-min", "mixed-sum", "mixed-multitask"])
def test_it_takes_every_mixed_tasks_samples_held_out_ones_too(kind, task):
    for held_out in (False, True):
        inputs, target = tasks.get(task).sample(
            3, held_out=held_out, generator=torch.Generator().manual_seed(0), high=50.0
        )
        assert kind(bias=False, layers=1)(*inputs).shape == target.shape


@BOTH
def test_the_answer_is_read_at_node_0_and_every_node_reaches_it(kind):
    model = oracle.stirred(kind(**SIZES))
    characters, values = samples(1)
    before = model(characters, values)
    for at in range(5):
        changed = characters.clone()
        changed[0, at] = (characters[0, at] + 1) % 13
        assert (model(changed, values) - before).abs().max() > 1e-6
    for at in range(3):
        moved = values.clone()
        moved[0, at] += 1.0
        assert (model(characters, moved) - before).abs().max() > 1e-6


def test_positional_attention_sees_neither_characters_nor_numbers():
    """Attention that points every node at node 0 hides all others, whatever they hold."""

    def at_node_0(w: oracle.Params) -> None:
        for name in ("query_weight", "key_weight", "key_bias"):
            w[name].zero_()
        w["query_bias"].fill_(1.0)
        w["key_weight"][:, 0] = 1e4

    model = oracle.reweighted(oracle.stirred(MixedPositionalTransformer(**SIZES)), at_node_0)
    characters, values = samples(1)
    other = (characters + 1) % 13
    other[:, 0] = characters[:, 0]
    assert torch.equal(model(characters, values), model(other, 10 * values))
    other[:, 0] = (characters[:, 0] + 1) % 13
    assert not torch.allclose(model(characters, values), model(other, values))


@BOTH
def test_replicas_at_once_equal_each_by_itself(kind):
    models = [oracle.stirred(kind(**SIZES), seed) for seed in range(3)]
    characters, values = samples(3 * 4)
    characters, values = characters.unflatten(0, (3, 4)), values.unflatten(0, (3, 4))
    together = mapped(models[0].architecture)(oracle.stacked(models), characters, values)
    for replica, model in enumerate(models):
        alone = model(characters[replica], values[replica]).detach()
        assert oracle.relative_error(together[replica], alone) < oracle.ROUNDING


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"characters": 98}, "characters=98, length=98: there must be room for at least one number"),
        ({"vocabulary": 0}, "vocabulary=0: it must be a whole number of at least 1"),
        ({"in_dim": 2}, "in_dim=2, constants=None: a mixed-type model takes plain numbers"),
        ({"constants": "one-hot"}, "constants='one-hot': a mixed-type model takes plain numbers"),
        ({"encoding": "given", "encoding_dim": 3}, "encoding='given': a mixed-type model takes the name"),
    ],
)
def test_sizes_that_do_not_fit_are_named(kind, options, message):
    with pytest.raises(PosattnError, match=message):
        kind.describes(**options)


def test_the_encoding_is_not_appended_to_numbers():
    with pytest.raises(PosattnError, match="append_encoding=True"):
        MixedStandard(append_encoding=True)


@pytest.mark.parametrize("model", [MixedPositionalTransformer, MixedStandardTransformer])
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_form_for_training_takes_characters_and_numbers_at_every_precision(model, precision):
    inputs, _ = tasks.get("mixed-min").sample(3, generator=torch.Generator().manual_seed(0))
    module = model(generator=torch.Generator().manual_seed(1))
    form = fast_form(module.architecture, device=torch.device("cpu"), precision=precision)
    answer = form(module.replica(), *(x.unsqueeze(0) for x in inputs))[0]
    # bfloat16 keeps 8 bits, and a value passes through some ten products on its way.
    tolerance = 10 * 2**-8 if precision == "bf16" else 1e-5
    assert (answer.float() - module(*inputs)).abs().max() <= tolerance * module(*inputs).abs().max()
