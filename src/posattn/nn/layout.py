"""Two layouts of a model's tensors, and the map between them.

A module holds one tensor for each layer, as PyTorch does. Fleets, files and theory hold each kind of tensor once,
stacked over the layers, and maps from the right, x·W:

    stacked                                              module
    encoder_weight       (into, out)                     encoder.weight                  (out, into)
    query_weight         (layers, into, out)             layers.0.attention.query.weight (out, into)
    mlp_middle_weight    (layers, maps, into, out)       layers.0.mlp_middle.0.weight    (out, into)
    token_embedding      (entries, width)                token_embedding.weight          the same
    encoding             (nodes, width)                  encoding                        the same

First weights are drawn stacked, so that a seed gives the same model in either layout, and files that older versions
wrote are read as they are.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from posattn.nn.architecture import Architecture
from posattn.nn.initial_weights import Params

#: Maps that belong to a layer's attention.
ATTENTION = ("query", "key")


class Slot(NamedTuple):
    """Where a tensor of the module lies in the stacked layout."""

    stacked: str
    layer: tuple[int, ...]  # its place along the axes that count layers
    turned: bool  # whether the module holds its transpose


@cache
def slots(architecture: Architecture) -> dict[str, Slot]:
    """Every tensor of the module by its name in `state_dict`."""
    learned = architecture.parameters()
    found = {}
    for stacked, shape in architecture.shapes().items():
        axes = learned[stacked].layers if stacked in learned else 0
        turned = stacked.endswith("_weight") and len(shape) >= axes + 2  # a matrix, not the scale of a normalisation
        for layer in product(*map(range, shape[:axes])):
            found[module_name(stacked, layer)] = Slot(stacked, layer, turned)
    return found


def module_name(stacked: str, layer: tuple[int, ...]) -> str:
    """What the module calls a tensor: `query_weight` of layer 2 is `layers.2.attention.query.weight`."""
    if stacked.endswith("_embedding"):
        return f"{stacked}.weight"
    if numbered := re.fullmatch(r"layer(\d+)_(weight|bias)", stacked):
        return f"layers.{numbered[1]}.{numbered[2]}"
    map_, _, part = stacked.rpartition("_")
    if part not in ("weight", "bias"):
        return stacked
    if not layer:
        return f"{map_}.{part}"
    inside = f"attention.{map_}" if map_ in ATTENTION else map_
    return ".".join(["layers", str(layer[0]), inside, *map(str, layer[1:]), part])


def stack(architecture: Architecture, held: Mapping[str, Tensor]) -> Params:
    """A module's tensors in the stacked layout."""
    pieces: dict[str, list[Tensor]] = {}
    for name, slot in slots(architecture).items():
        pieces.setdefault(slot.stacked, []).append(held[name].mT if slot.turned else held[name])
    learned, shapes = architecture.parameters(), architecture.shapes()
    return {
        name: torch.stack(found).reshape(shapes[name]) if name in learned and learned[name].layers else found[0]
        for name, found in pieces.items()
    }


def unstack(architecture: Architecture, p: Params) -> dict[str, Tensor]:
    """Stacked tensors as the module's, by name; views of what they were."""
    learned = architecture.parameters()
    each = {name: dict(_layers(p[name], learned[name].layers if name in learned else 0)) for name in p}
    found = {name: (each[slot.stacked][slot.layer], slot.turned) for name, slot in slots(architecture).items()}
    return {name: tensor.mT if turned else tensor for name, (tensor, turned) in found.items()}


def _layers(tensor: Tensor, axes: int) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """A tensor's parts along its first axes; all of them by one `unbind`, which has one gradient."""
    if axes == 0:
        yield (), tensor
        return
    places = product(*map(range, tensor.shape[:axes]))
    yield from zip(places, tensor.flatten(0, axes - 1).unbind(0), strict=True)
