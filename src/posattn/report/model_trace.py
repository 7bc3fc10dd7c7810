"""A trained model at work on one input: layer by layer who reads from whom, and what the nodes hold.

The template is the one that shows programs at work.

A node's state is a vector; what is shown of it is what the model's decoder reads off it, so that the last layer shows
the answer. Looped models hold numbers as they are.
"""

from typing import Any

import torch
from torch import Tensor

from posattn.checks import instance
from posattn.html import render
from posattn.nn import LoopedPositionalTransformer, Model, NumericModel
from posattn.nn.module import Step

#: A read below this share of a node's attention is not drawn.
LEAST = 0.2
SHOWN = "value"


def model_page(model: Model[Any], x: Tensor, *, title: str) -> str:
    """The trace of one input (length, in_dim) as one self-contained page."""
    instance(
        "model",
        model,
        (NumericModel, LoopedPositionalTransformer),
        fix="pass a model for numbers, as posattn.load gives",
    )
    with torch.no_grad():
        steps = [step for step in model.trace(x[None]) if step.name not in ("decoder", "answer")]
        values = [_held(x[:, 0], len(steps[0].state[0]) if steps else len(x)), *(_read_off(model, s) for s in steps)]
    frames = [{"note": "the input", "edges": [], "registers": {SHOWN: _numbers(values[0])}}]
    for step, before, after in zip(steps, values[:-1], values[1:], strict=True):
        edges = _edges(step.attention, before)
        frames.append({"note": _note(step, model), "edges": edges, "registers": {SHOWN: _numbers(after)}})
    data = {
        "nodes": len(values[0]),
        "length": len(x),
        "given": len(x),
        "names": [SHOWN],
        "shown": SHOWN,
        "frames": frames,
    }
    return render("trace.html", title=title, filled=None, data=data)


def _held(x: Tensor, nodes: int) -> Tensor:
    """The input, with 0 for nodes that have none."""
    return torch.cat([x, x.new_zeros(nodes - len(x))])


def _read_off(model: Model[Any], step: Step) -> Tensor:
    decoder = getattr(model, "decoder", None)
    state = step.state[0]
    return state[:, 0] if isinstance(model, LoopedPositionalTransformer) or decoder is None else decoder(state)[:, 0]


def _edges(attention: Tensor | None, values: Tensor) -> list[list[float]]:
    """[from, to, word] for every read that counts, heads taken together."""
    if attention is None:
        return []
    heads = attention[0] if attention.dim() == 4 else attention
    shares = heads.amax(0)
    found = (shares >= LEAST).nonzero().tolist()
    return [[source, node, _number(values[source].item())] for node, source in found if source != node]


def _note(step: Step, model: Model[Any]) -> str:
    if isinstance(model, LoopedPositionalTransformer):
        return f"{step.name}: lines are reads of at least {LEAST:.0%} of a node's attention"
    if step.name == "encoder":
        return "each number becomes a vector; shown is what the decoder would read off it"
    layer = int(step.name.rpartition(".")[2]) + 1
    return (
        f"layer {layer}: lines are reads of at least {LEAST:.0%} of a head's attention; shown is what the decoder reads"
    )


def _numbers(values: Tensor) -> list[float]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float:
    return float(f"{value:.6g}")
