"""Fast forms are the model re-associated: same outputs, same gradients, every replica by itself."""

from functools import partial
from typing import Any

import pytest
import torch

from nn import oracle
from nn.fast.equality import assert_equals_the_model, traced
from posattn import PositionalTransformer, StandardTransformer
from posattn.nn.fast import kernel_limits, layer_by_layer, positional, standard
from posattn.nn.fast.any_model import mapped
from posattn.nn.fast.kernel_limits import MOST_NODES
from posattn.nn.initial_weights import Params

SIZES: dict[str, Any] = {"length": 5, "in_dim": 2, "out_dim": 3, "embed_dim": 6, "hidden_dim": 13}
#: Every fast form of ordinary operations.
FORMS = pytest.mark.parametrize(
    ("kind", "form"),
    [
        (PositionalTransformer, positional.folded),
        (PositionalTransformer, lambda sizes, p, x: positional.factored(sizes)(p, x)),
        (PositionalTransformer, positional.expanded),
        (StandardTransformer, lambda sizes, p, x: standard.folded(sizes)(p, x)),
    ],
)


def replicas_of(kind: Any, count: int, **options: Any) -> tuple[Any, Params]:
    """An architecture, and the weights of `count` different models of it with a leading replica axis."""
    models = [oracle.stirred(kind(**options), seed) for seed in range(count)]
    return models[0].architecture, oracle.stacked(models)


@FORMS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("mlp_layers", [2, 3, 4])
def test_a_fast_form_equals_the_model_in_outputs_and_gradients(kind, form, bias, layers, heads, mlp_layers):
    options = SIZES | {"bias": bias, "layers": layers, "heads": heads, "mlp_layers": mlp_layers}
    architecture, p = replicas_of(kind, 2, **options)
    assert_equals_the_model(partial(form, architecture), architecture, p, oracle.numbers(2, 4, 5, 2))


def test_the_fold_leaves_out_only_what_cannot_matter():
    """The standard model's fold never reads b_K, and in the model itself its gradient is rounding."""
    architecture, p = replicas_of(StandardTransformer, 1, **SIZES)
    x = oracle.numbers(1, 4, 5, 2)
    gradients = traced(standard.folded(architecture), p, x)[1]
    assert [name for name, gradient in gradients.items() if not gradient.any()] == ["key_bias"]
    own = traced(mapped(architecture), p, x)[1]
    assert own["key_bias"].abs().max() < oracle.ROUNDING * own["query_bias"].abs().max()


@FORMS
@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("scratchpad", [0, 1, 2])
def test_a_fast_form_equals_the_model_on_shorter_inputs(kind, form, length, scratchpad):
    architecture, p = replicas_of(kind, 2, **SIZES, scratchpad=scratchpad)
    assert_equals_the_model(partial(form, architecture), architecture, p, oracle.numbers(2, 3, length, 2))


@FORMS
@pytest.mark.parametrize("in_dim", [1, 12, 13, 14, 23])
def test_a_fast_form_equals_the_model_on_inputs_narrower_and_wider_than_the_hidden_width(kind, form, in_dim):
    architecture, p = replicas_of(kind, 2, **dict(SIZES, in_dim=in_dim))
    assert_equals_the_model(partial(form, architecture), architecture, p, oracle.numbers(2, 3, 5, in_dim))


@FORMS
def test_a_fast_form_equals_the_model_with_constants(kind, form):
    architecture, p = replicas_of(kind, 2, **SIZES, constants="sinusoidal")
    assert_equals_the_model(partial(form, architecture), architecture, p, oracle.numbers(2, 3, 5, 2))


def test_standard_folds_without_the_encoding_in_its_input():
    architecture, p = replicas_of(StandardTransformer, 2, **SIZES, append_encoding=False)
    assert_equals_the_model(standard.folded(architecture), architecture, p, oracle.numbers(2, 3, 5, 2))


@pytest.mark.parametrize(
    ("kind", "form", "options"),
    [
        (StandardTransformer, standard.turned, {"rotary": True, "append_encoding": False}),
        (StandardTransformer, standard.by_rows, {"encoding": "sinusoidal", "encoding_dim": 6}),
        (PositionalTransformer, positional.by_rows, {"encoding": "sinusoidal", "encoding_dim": 6}),
    ],
    ids=["rotary", "standard", "positional"],
)
def test_a_form_of_kernels_takes_inputs_that_are_too_long_for_them(kind, form, options):
    """Built for five numbers, with an encoding that goes on or none, so that it takes any number of them."""
    architecture, p = replicas_of(kind, 2, **SIZES, **options)
    x = oracle.numbers(2, 3, MOST_NODES, 2)  # and the scratchpad
    assert_equals_the_model(partial(form, architecture), architecture, p, x)


KERNELS = pytest.mark.parametrize(
    ("kind", "form", "plain", "options"),
    [
        (PositionalTransformer, positional.by_rows, positional.folded, {}),
        (StandardTransformer, standard.by_rows, lambda sizes, p, x: standard.folded(sizes)(p, x), {}),
        (StandardTransformer, standard.turned, layer_by_layer.numeric, {"rotary": True}),
    ],
    ids=["positional", "standard", "rotary"],
)


@KERNELS
def test_a_form_of_kernels_leaves_samples_that_32_bits_do_not_count_to_another(kind, form, plain, options, monkeypatch):
    architecture, p = replicas_of(kind, 2, **SIZES, **options)
    x = oracle.numbers(2, 3, 5, 2)
    monkeypatch.setattr(kernel_limits, "NUMBERS", 3 * 6 * 2 * 3 * 13)  # batch, nodes, 2·(heads + 1)·widest
    assert torch.equal(form(architecture, p, x), plain(architecture, p, x))
    assert not kernel_limits.samples_fit(x, nodes=6, widest=13, heads=2)
    assert kernel_limits.samples_fit(x[:, :2], nodes=6, widest=13, heads=2)
    assert not kernel_limits.samples_fit(x[:, :2], nodes=600, widest=13, heads=2)


@KERNELS
def test_a_form_of_kernels_gives_an_empty_batch_for_one(kind, form, plain, options):
    architecture, p = replicas_of(kind, 2, **SIZES, **options)
    assert form(architecture, p, oracle.numbers(2, 0, 5, 2)).shape == (2, 0, 5, 3)


@FORMS
@pytest.mark.parametrize("in_dim", [1, 70])  # both ways of `mixed_layer`
def test_an_empty_batch_gives_an_empty_batch(kind, form, in_dim):
    architecture, p = replicas_of(kind, 2, **dict(SIZES, in_dim=in_dim))
    assert form(architecture, p, oracle.numbers(2, 0, 5, in_dim)).shape == (2, 0, 5, 3)


@FORMS
def test_replicas_at_once_equal_each_by_itself(kind, form):
    architecture, p = replicas_of(kind, 3, **SIZES, mlp_layers=3)
    x = oracle.numbers(3, 4, 5, 2)
    y, gradients = traced(partial(form, architecture), p, x)
    for replica in range(3):
        one = slice(replica, replica + 1)
        own = {name: tensor[one] for name, tensor in p.items()}
        alone = form(architecture, own, x[one])
        assert oracle.relative_error(y[one], alone) < oracle.ROUNDING
    assert (y[0] - y[1]).abs().max() > 0.1  # different weights, or the comparison would say nothing
    assert (y[1] - y[2]).abs().max() > 0.1
    assert all(gradient.shape == (p | {"input 0": x})[name].shape for name, gradient in gradients.items())


@FORMS
def test_a_replica_gets_no_gradient_from_another(kind, form):
    architecture, p = replicas_of(kind, 3, **SIZES)
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in p.items()}
    form(architecture, leaves, oracle.numbers(3, 4, 5, 2))[1].square().sum().backward()
    for name, leaf in leaves.items():
        if leaf.grad is not None:
            assert not leaf.grad[[0, 2]].any(), name
    assert leaves["mlp_in_weight"].grad is not None
    assert leaves["mlp_in_weight"].grad[1].any()
