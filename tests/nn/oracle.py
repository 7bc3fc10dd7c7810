"""The models' formulas in NumPy, one sample, one head and one node at a time, and models with given weights.

No formula here calls posattn.

Layout of the weights, as the models state it: `name_weight` is (into, out) and acts from the right; maps that every
layer has are stacked, (layers, into, out); head h owns the h-th block of columns.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posattn.nn import Model, model_of
from posattn.nn.initial_weights import Params

#: Sizes of the numeric models in the tests: small, and mostly different from each other.
SIZES: dict[str, Any] = {
    "length": 5,
    "in_dim": 3,
    "out_dim": 2,
    "embed_dim": 14,
    "heads": 2,
    "layers": 3,
    "hidden_dim": 11,
}

#: How far two right computations of one of these models may lie apart in float64, relative to the largest entry: some
#: 60 sums of at most 60 products stand between an input and an output or a gradient, 3,600 roundings of 2⁻⁵³ or 4e-13
#: were all of them to add up, and weights of gain about 1 magnify that by less than 100.
ROUNDING = 1e-10

Array = np.ndarray[Any, np.dtype[np.float64]]
Weights = dict[str, Array]
Turn = Callable[[int, Array], Array]


def stirred(model: Any, seed: int = 0) -> Any:
    """The model in float64 with every parameter redrawn, biases too, so large that leaving one out shows.

    A map's weights have deviation 1/√into, twice that for W_Q and W_K (attention far from uniform) and √2 times that
    in the MLP (ReLUs halve), biases 1/2.
    """
    generator = torch.Generator().manual_seed(seed)

    def redraw(weights: Params) -> None:
        for name in model.architecture.parameters():
            weight = weights[name]
            into = 4 if name.endswith("_bias") else 1 if name.endswith("_embedding") else weight.shape[-2]
            gain = {"query_weight": 2.0, "key_weight": 2.0}.get(name, math.sqrt(2) if "mlp" in name else 1.0)
            weight.normal_(0.0, gain / math.sqrt(into), generator=generator)

    return reweighted(model.double(), redraw)


def reweighted(model: Any, edit: Callable[[Params], Any]) -> Any:
    """The model with weights that `edit` changed, in place and in the stacked layout."""
    lying = torch.contiguous_format
    weights = {name: tensor.detach().clone(memory_format=lying) for name, tensor in model.weights().items()}
    edit(weights)
    return model_of(model.architecture, weights)


def stacked(models: Sequence[Model[Any]]) -> Params:
    """The weights of several models of one architecture, with a leading replica axis."""
    each = [model.weights() for model in models]
    return {name: torch.stack([weights[name].detach() for weights in each]) for name in each[0]}


def shapes_of(model: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.weights().items()}


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def weights_of(model: Any) -> Weights:
    return {name: tensor.detach().double().numpy() for name, tensor in model.weights().items()}


def relative_error(found: Tensor, expected: Any) -> float:
    """Largest difference, as a part of the largest entry."""
    wanted = np.asarray(expected)
    values = found.detach().numpy()
    assert values.shape == wanted.shape
    return float(np.abs(values - wanted).max() / np.abs(wanted).max())


def linear(w: Weights, name: str, row: Array, *at: int) -> Array:
    y = row @ w[f"{name}_weight"][at]
    return y + w[f"{name}_bias"][at] if f"{name}_bias" in w else y


def relu(row: Array) -> Array:
    return np.where(row > 0, row, 0.0)


def softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def attention(
    w: Weights,
    index: int,
    seen: Array,
    heads: int,
    *,
    turn: Turn | None = None,
    causal: bool = False,
    fade: Sequence[float] | None = None,
) -> Array:
    """A_h of one layer and one sample, from what Q and K see of every node: (heads, nodes, nodes)."""
    nodes = len(seen)
    result = np.zeros((heads, nodes, nodes))
    for h in range(heads):
        query = [np.split(linear(w, "query", row, index), heads)[h] for row in seen]
        key = [np.split(linear(w, "key", row, index), heads)[h] for row in seen]
        if turn is not None:
            query = [turn(i, q) for i, q in enumerate(query)]
            key = [turn(j, k) for j, k in enumerate(key)]
        for i in range(nodes):
            reach = i + 1 if causal else nodes
            logits = np.array([sum(query[i] * key[j]) / math.sqrt(len(key[j])) for j in range(reach)])
            if fade is not None:
                logits -= [fade[h] * abs(i - j) for j in range(reach)]
            result[h, i, :reach] = softmax(logits)
    return result


def attended(w: Weights, index: int, x: Array, weights: Array) -> Array:
    """W_O·concat_h(Σ_j A_h[i, j]·x_j·W_V,h) for every node i."""
    heads, nodes = len(weights), len(x)
    values = [np.split(linear(w, "value", row, index), heads) for row in x]  # values[j][h]
    rows = []
    for i in range(nodes):
        parts = [sum(weights[h, i, j] * values[j][h] for j in range(nodes)) for h in range(heads)]
        rows.append(linear(w, "output", np.concatenate(parts), index))
    return np.array(rows)


def layer(w: Weights, index: int, x: Array, weights: Array) -> Array:
    """x ← MLP([x ‖ W_O·attention(x)])."""
    rows = []
    for own, mixed in zip(x, attended(w, index, x, weights), strict=True):
        hidden = relu(linear(w, "mlp_in", np.concatenate([own, mixed]), index))
        inner = w["mlp_middle_weight"].shape[1] if "mlp_middle_weight" in w else 0
        for at in range(inner):
            hidden = relu(linear(w, "mlp_middle", hidden, index, at))
        rows.append(linear(w, "mlp_out", hidden, index))
    return np.array(rows)


def positional(w: Weights, x: Any, *, heads: int, scratchpad: int = 1) -> tuple[Array, Array]:
    """Outputs (batch, length, out) and the attention (layers, heads, nodes, nodes) of a positional Transformer."""
    layers = len(w["query_weight"])
    weights = np.array([attention(w, index, w["encoding"], heads) for index in range(layers)])
    outputs = []
    for sample in np.asarray(x):
        nodes = np.concatenate([sample, np.zeros((scratchpad, sample.shape[1]))])
        state = np.array([linear(w, "encoder", row) for row in nodes])
        for index in range(layers):
            state = layer(w, index, state, weights[index])
        outputs.append([linear(w, "decoder", row) for row in state[: len(sample)]])
    return np.array(outputs), weights


def by_value(
    w: Weights,
    x: Any,
    *,
    heads: int,
    scratchpad: int = 1,
    append: bool = True,
    show: bool = False,
    turn: Turn | None = None,
    fade: Sequence[float] | None = None,
) -> tuple[Array, Array]:
    """A Transformer whose Q and K see the state, the standard one: outputs, and the attention of every sample.

    `append`: the input is [x ‖ P]. `show`: Q and K see [state ‖ P] (ablation M3). `turn`: rotates q and k of a node.
    `fade`: for each head, what a logit loses per node of distance.
    """
    place, outputs, seen = w["encoding"], [], []
    for sample in np.asarray(x):
        nodes = np.concatenate([sample, np.zeros((scratchpad, sample.shape[1]))])
        if append:
            nodes = np.concatenate([nodes, place], axis=1)
        state = np.array([linear(w, "encoder", row) for row in nodes])
        seen.append([])
        for index in range(len(w["query_weight"])):
            visible = np.concatenate([state, place], axis=1) if show else state
            seen[-1].append(attention(w, index, visible, heads, turn=turn, fade=fade))
            state = layer(w, index, state, seen[-1][-1])
        outputs.append([linear(w, "decoder", row) for row in state[: len(sample)]])
    return np.array(outputs), np.array(seen)


def rotation(i: int, width: int) -> Array:
    """Block-diagonal: the plane of dimensions (2k, 2k + 1) turns by i / 10000^(2k/width)."""
    matrix = np.zeros((width, width))
    for k in range(width // 2):
        angle = i / 10000 ** (2 * k / width)
        block = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        matrix[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = block
    return matrix


def turned(i: int, row: Array) -> Array:
    return rotation(i, len(row)) @ row
