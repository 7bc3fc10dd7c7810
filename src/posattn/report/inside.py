"""What lies behind a step of a model: whom each node reads, with which weight, and what its MLP makes of it."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from posattn import checks
from posattn.errors import counted, require
from posattn.html.trace import Read, Update
from posattn.nn import LoopedPositionalTransformer, Model, Step
from posattn.nn.schedules import Bitonic, Scan

#: Weights below this are not shown.
LEAST = 0.005


def numbers(values: Tensor) -> list[float]:
    return [float(value) for value in values]


def traced(model: Model[Any], x: Tensor) -> tuple[list[Step], dict[str, Tensor]]:
    """The model's trace, and what each of its submodules gave."""
    held: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_hook(lambda _, __, out, name=name: held.__setitem__(name, out.detach()))
        for name, module in model.named_modules()
        if name
    ]
    try:
        return model.trace(x), held
    finally:
        for hook in hooks:
            hook.remove()


def attention_of(model: Model[Any], x: Tensor) -> Tensor:
    """The attention of every step that has some on x (length, in_dim): (steps, heads, nodes, nodes)."""
    checks.instance("model", model, Model, fix="pass a model of posattn's, as posattn.zoo.load('sort', 'positional')")
    checks.tensor("x", x)
    require(x.dim() == 2, f"x has shape {tuple(x.shape)}: give one input, (length, numbers per node).")
    steps = model.trace(x[None].to(next(model.parameters())))
    found = [_single(step.attention) for step in steps if step.attention is not None]
    require(
        bool(found), f"the {model.architecture.kind} model has no attention to show on {counted(len(x), 'number')}."
    )
    return torch.stack(found)


def _single(attention: Tensor) -> Tensor:
    """(heads, nodes, nodes): where attention sees values, there is one for each sample."""
    return attention[0] if attention.dim() == 4 else attention


def reads_of(attention: Tensor, words: Tensor) -> list[Read]:
    """Every weight that counts, beside the number that its node held."""
    weights = _single(attention)
    heads, nodes, sources = (weights >= LEAST).nonzero(as_tuple=True)
    return [
        Read(source, node, float(words[source]), float(weights[head, node, source]), head)
        for head, node, source in zip(heads.tolist(), nodes.tolist(), sources.tolist(), strict=True)
    ]


def looped_reads(
    model: LoopedPositionalTransformer, place: int, attention: Tensor | None, words: Tensor
) -> tuple[list[str], list[Read]]:
    """The heads of an iteration and what they read; of a graph, the two legs of a path through node `place`."""
    if model.architecture.schedule != "pairs":
        heads = 0 if attention is None else attention.shape[-3]
        return [f"head {head + 1}" for head in range(heads)], [] if attention is None else reads_of(attention, words)
    first, second = _legs(len(words), place)
    found = [
        Read(source, node, float(words[source]), 1.0, head)
        for head, sources in enumerate((first, second))
        for node, source in enumerate(sources)
    ]
    return [f"the way to node {place}", f"the way from node {place}"], found


def _legs(length: int, place: int) -> tuple[list[int], list[int]]:
    """Node (i, j) of n·n reads (i, k) and (k, j) in iteration k."""
    side = math.isqrt(length)
    pairs = [(i, j) for i in range(side) for j in range(side)]
    return [i * side + place for i, _ in pairs], [place * side + j for _, j in pairs]


def looped_updates(model: LoopedPositionalTransformer, place: int, before: Tensor, after: Tensor) -> list[Update]:
    """number = carrier + MLP(seen): what is carried over, what the symmetry leaves the MLP to see, and its answer."""
    schedule, wiring = model.architecture.schedule, model.architecture.wiring
    if isinstance(wiring, Scan | Bitonic):
        partner, _ = wiring.reads(len(before))[place]
        values = [before, before[partner.to(before.device)]]
    elif schedule == "pairs" and len(model.kinds) == 1:
        values = [before, *(before[legs] for legs in _legs(len(before), place))]
    else:
        return []
    invariants, carrier = model.kinds[0]
    carried = _combined(carrier, values)
    seen = {
        "seen" if len(invariants) == 1 else f"seen {number}": numbers(_combined(row, values))
        for number, row in enumerate(invariants, 1)
    }
    words = {"carrier": numbers(carried), **seen, "MLP(seen)": numbers(after - carried)}
    return [Update(register="number", formula="carrier + MLP(seen)", words=words)]


def _combined(factors: Sequence[Fraction], values: Sequence[Tensor]) -> Tensor:
    return torch.stack([float(factor) * value for factor, value in zip(factors, values, strict=True)]).sum(0)
