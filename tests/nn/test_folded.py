"""The folded forms are the plain one re-associated: same outputs, same gradients, every replica by itself."""

from typing import Any

import pytest
import torch
from torch import Tensor

from posattn import PositionalTransformer, StandardTransformer
from posattn.nn.initial import Params

from . import oracle

SIZES: dict[str, Any] = {"length": 5, "in_dim": 2, "out_dim": 3, "embed_dim": 6, "hidden_dim": 13}
#: Every way to compute what `plain` computes.
FORMS = pytest.mark.parametrize(
    ("kind", "form"),
    [(PositionalTransformer, "folded"), (PositionalTransformer, "expanded"), (StandardTransformer, "folded")],
)


def replicas_of(kind: Any, count: int, **options: Any) -> tuple[Any, Params]:
    """An architecture, and the weights of `count` different models of it with a leading replica axis."""
    models = [oracle.stirred(kind(**options), seed) for seed in range(count)]
    states = [model.state_dict() for model in models]
    return models[0].architecture, {name: torch.stack([state[name] for state in states]) for name in states[0]}


def traced(form: Any, p: Params, x: Tensor) -> tuple[Tensor, Params]:
    """Output, and the gradient of a fixed random mixture of it for every tensor; 0 where a tensor is not used."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in p.items()} | {"x": x.clone().requires_grad_()}
    y = form({name: leaf for name, leaf in leaves.items() if name != "x"}, leaves["x"])
    (y * oracle.numbers(*y.shape, seed=9)).sum().backward()
    return y.detach(), {
        name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for name, leaf in leaves.items()
    }


def assert_equals_plain(architecture: Any, form: str, p: Params, x: Tensor) -> None:
    y, gradients = traced(architecture.plain, p, x)
    folded_y, folded_gradients = traced(getattr(architecture, form), p, x)
    assert 0.1 < y.abs().max() < 100  # neither so small nor so large that an error would hide
    assert oracle.relative_error(folded_y, y) < oracle.ROUNDING
    largest = max(gradient.abs().max() for gradient in gradients.values())
    for name, gradient in gradients.items():
        error = (folded_gradients[name] - gradient).abs().max()
        # A gradient that is 0 by algebra (of b_K: softmax does not see it) is rounding on one side, 0 on the other.
        scale = gradient.abs().max() if gradient.abs().max() > oracle.ROUNDING * largest else largest
        assert error <= oracle.ROUNDING * scale, name


@FORMS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("mlp_layers", [2, 3, 4])
def test_folded_equals_plain_in_outputs_and_gradients(kind, form, bias, layers, heads, mlp_layers):
    options = SIZES | {"bias": bias, "layers": layers, "heads": heads, "mlp_layers": mlp_layers}
    architecture, p = replicas_of(kind, 2, **options)
    assert_equals_plain(architecture, form, p, oracle.numbers(2, 4, 5, 2))


def test_the_fold_leaves_out_only_what_cannot_matter():
    """The standard model's fold never reads b_K, and in the plain form its gradient is rounding."""
    architecture, p = replicas_of(StandardTransformer, 1, **SIZES)
    x = oracle.numbers(1, 4, 5, 2)
    gradients = traced(architecture.folded, p, x)[1]
    assert [name for name, gradient in gradients.items() if not gradient.any()] == ["key_bias"]
    plain = traced(architecture.plain, p, x)[1]
    assert plain["key_bias"].abs().max() < oracle.ROUNDING * plain["query_bias"].abs().max()


@FORMS
@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("scratchpad", [0, 1, 2])
def test_folded_equals_plain_on_shorter_inputs(kind, form, length, scratchpad):
    architecture, p = replicas_of(kind, 2, **SIZES, scratchpad=scratchpad)
    assert_equals_plain(architecture, form, p, oracle.numbers(2, 3, length, 2))


@FORMS
@pytest.mark.parametrize("in_dim", [1, 12, 13, 14, 23])
def test_folded_equals_plain_on_inputs_narrower_and_wider_than_the_hidden_width(kind, form, in_dim):
    architecture, p = replicas_of(kind, 2, **dict(SIZES, in_dim=in_dim))
    assert_equals_plain(architecture, form, p, oracle.numbers(2, 3, 5, in_dim))


@FORMS
def test_folded_equals_plain_with_constants(kind, form):
    architecture, p = replicas_of(kind, 2, **SIZES, constants="sinusoidal")
    assert_equals_plain(architecture, form, p, oracle.numbers(2, 3, 5, 2))


def test_standard_folds_without_the_encoding_in_its_input():
    architecture, p = replicas_of(StandardTransformer, 2, **SIZES, append_encoding=False)
    assert_equals_plain(architecture, "folded", p, oracle.numbers(2, 3, 5, 2))


@FORMS
def test_replicas_at_once_equal_each_by_itself(kind, form):
    architecture, p = replicas_of(kind, 3, **SIZES, mlp_layers=3)
    x = oracle.numbers(3, 4, 5, 2)
    y, gradients = traced(getattr(architecture, form), p, x)
    for replica in range(3):
        one = slice(replica, replica + 1)
        own = {name: tensor[one] for name, tensor in p.items()}
        alone = getattr(architecture, form)(own, x[one])
        assert oracle.relative_error(y[one], alone) < oracle.ROUNDING
    assert (y[0] - y[1]).abs().max() > 0.1  # different weights, or the comparison would say nothing
    assert (y[1] - y[2]).abs().max() > 0.1
    assert all(gradient.shape == (p | {"x": x})[name].shape for name, gradient in gradients.items())


@FORMS
def test_a_replica_gets_no_gradient_from_another(kind, form):
    architecture, p = replicas_of(kind, 3, **SIZES)
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in p.items()}
    getattr(architecture, form)(leaves, oracle.numbers(3, 4, 5, 2))[1].square().sum().backward()
    for name, leaf in leaves.items():
        if leaf.grad is not None:
            assert not leaf.grad[[0, 2]].any(), name
    assert leaves["mlp_in_weight"].grad is not None
    assert leaves["mlp_in_weight"].grad[1].any()
