"""Random inputs of a model of any kind, and which of their axes may change: what exporting one has to know.

>>> from posattn.nn.positional import PositionalTransformer
>>> taken = inputs_of(PositionalTransformer(length=8))
>>> taken.axes
({0: 'batch', 1: 'length'},)
>>> [tuple(x.shape) for x in taken.draw({"batch": 3, "length": 5}, torch.Generator().manual_seed(0))]
[(3, 5, 1)]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import singledispatch

import torch
from torch import Tensor

from posattn.errors import PosattnError, kind_of
from posattn.nn.compiled_positional import ExactPositionalTransformer
from posattn.nn.fully_connected import FullyConnectedNetwork
from posattn.nn.gpt import GPT
from posattn.nn.hardened import HardenedTransformer
from posattn.nn.hop_tables import HopTablesModel
from posattn.nn.looped import LoopedPositionalTransformer
from posattn.nn.looped_slopes import LoopedSlopesModel
from posattn.nn.looped_standard import LoopedStandardTransformer
from posattn.nn.mixed_gated import MixedGatedModel
from posattn.nn.mixed_type import MixedModel
from posattn.nn.numeric_model import NumericModel
from posattn.nn.random_places import PlacedModel
from posattn.nn.selector import SelectorTransformer

#: A looped model takes any length, and each is another program: those that it is shown at.
LOOPED_LENGTH, LOOPED_SIDE = 8, 4
Sizes = Mapping[str, int]
Draw = Callable[[Sizes, torch.Generator], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Inputs:
    """What a model's `forward` takes. A size that has a name is one of those that `draw` is given."""

    axes: tuple[dict[int, str], ...]  # for each input, the axes that may have any size, by name
    most: dict[str, int]  # the largest size of such an axis, where there is one
    usual: dict[str, int]  # a size of each that the model was built for
    draw: Draw
    of_length: Callable[[int], "Inputs"] | None = None  # the same for so many nodes, where each is another program


@singledispatch
def inputs_of(model: object) -> Inputs:
    """What a model takes. A family of your own that takes other inputs registers here, `@inputs_of.register`."""
    raise PosattnError(
        f"the model is {kind_of(model)}, and nothing says what it takes: pass a model of posattn.nn (of a compiled "
        "program its .model), or register what yours takes, posattn.nn.example_inputs.inputs_of.register."
    )


@inputs_of.register
def _(model: NumericModel) -> Inputs:
    sizes = model.architecture

    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (_numbers(model, generator, chosen["batch"], chosen["length"], sizes.in_dim),)

    most = {} if model.takes_any_length else {"length": sizes.length}
    return Inputs(({0: "batch", 1: "length"},), most, {"length": sizes.length}, draw)


@inputs_of.register(ExactPositionalTransformer)
@inputs_of.register(HardenedTransformer)
def _(model: ExactPositionalTransformer | HardenedTransformer) -> Inputs:
    sizes = model.architecture
    return Inputs(
        ({0: "batch"},),
        {},
        {},
        lambda chosen, generator: (_numbers(model, generator, chosen["batch"], sizes.length, sizes.in_dim),),
    )


@inputs_of.register(LoopedPositionalTransformer)
@inputs_of.register(LoopedSlopesModel)
def _(model: LoopedPositionalTransformer | LoopedSlopesModel) -> Inputs:
    wiring = model.wiring
    return _of_one_length(model, LOOPED_SIDE**2 if wiring.name in ("pairs", "grid") else LOOPED_LENGTH, wiring.in_dim)


@inputs_of.register
def _(model: LoopedStandardTransformer) -> Inputs:
    return _of_one_length(model, LOOPED_LENGTH, model.architecture.in_dim)


@inputs_of.register(PlacedModel)
def _(model: PlacedModel) -> Inputs:
    sizes = model.architecture

    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        batch, length = chosen["batch"], chosen["length"]
        return (
            _numbers(model, generator, batch, length, sizes.in_dim),
            _subset(generator, batch, length, of=sizes.length).sort(1).values,
        )

    each = {0: "batch", 1: "length"}
    return Inputs((each, each), {"length": sizes.length}, {"length": sizes.length}, draw)


@inputs_of.register(MixedModel)
def _(model: MixedModel) -> Inputs:
    sizes = model.architecture

    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        batch = chosen["batch"]
        characters = torch.randint(sizes.vocabulary, (batch, sizes.characters), generator=generator)
        return characters, _numbers(model, generator, batch, sizes.length - sizes.characters)

    return Inputs(({0: "batch"}, {0: "batch"}), {}, {}, draw)


@inputs_of.register
def _(model: MixedGatedModel) -> Inputs:
    sizes = model.architecture

    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        batch = chosen["batch"]
        characters = torch.randint(4, (batch, sizes.characters), generator=generator)  # few, so that some are equal
        return characters, _numbers(model, generator, batch, sizes.numbers)

    return Inputs(({0: "batch"}, {0: "batch"}), {}, {}, draw)


@inputs_of.register
def _(model: HopTablesModel) -> Inputs:
    return _letters_after_hops(model, LOOPED_LENGTH)


@inputs_of.register
def _(model: GPT) -> Inputs:
    sizes = model.architecture

    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (torch.randint(sizes.vocabulary, (chosen["batch"], chosen["length"]), generator=generator),)

    return Inputs(({0: "batch", 1: "length"},), {"length": sizes.length}, {"length": sizes.length}, draw)


@inputs_of.register
def _(model: SelectorTransformer) -> Inputs:
    sizes = model.architecture

    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        return _selection(model, generator, chosen["batch"], chosen["tokens"], chosen["subset"], sizes.dim)

    most = {} if sizes.encoding == "stochastic" else {"tokens": sizes.length}
    axes = {0: "batch", 1: "tokens"}, {0: "batch", 1: "subset"}, {0: "batch"}
    return Inputs(axes, most, {"tokens": sizes.length, "subset": min(3, sizes.length)}, draw)


@inputs_of.register
def _(model: FullyConnectedNetwork) -> Inputs:
    sizes = model.architecture

    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        return _selection(model, generator, chosen["batch"], sizes.length, chosen["subset"], sizes.dim)

    axes = {0: "batch"}, {0: "batch", 1: "subset"}, {0: "batch"}
    return Inputs(axes, {}, {"subset": min(3, sizes.length)}, draw)


def _of_one_length(model: torch.nn.Module, length: int, in_dim: int) -> Inputs:
    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (_numbers(model, generator, chosen["batch"], length, in_dim),)

    return Inputs(({0: "batch"},), {}, {}, draw, lambda other: _of_one_length(model, other, in_dim))


def _letters_after_hops(model: HopTablesModel, length: int) -> Inputs:
    sizes = model.architecture

    def draw(chosen: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        batch = chosen["batch"]
        hops = torch.randint(sizes.letters, sizes.letters + sizes.hops + 1, (batch, 1), generator=generator)
        return (torch.cat([hops, torch.randint(sizes.letters, (batch, length - 1), generator=generator)], dim=1),)

    return Inputs(({0: "batch"},), {}, {}, draw, lambda other: _letters_after_hops(model, other))


def _numbers(model: torch.nn.Module, generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator).to(next(model.parameters()).dtype)


def _subset(generator: torch.Generator, batch: int, count: int, *, of: int) -> Tensor:
    """In every row, `count` different places out of `of`."""
    return torch.rand(batch, of, generator=generator).argsort(1)[:, :count].contiguous()


def _selection(
    model: torch.nn.Module, generator: torch.Generator, batch: int, tokens: int, subset: int, dim: int
) -> tuple[Tensor, ...]:
    x, chosen = _numbers(model, generator, batch, tokens, dim), _subset(generator, batch, subset, of=tokens)
    return x, chosen, torch.randint(2**62, (batch,), generator=generator)
