"""The models: what a forward pass is. Start reading at `posattn.nn.positional`."""

from posattn.nn.ablations import ABLATIONS, ablation
from posattn.nn.architecture import Architecture, from_json
from posattn.nn.exact import ExactPositional, ExactPositionalTransformer
from posattn.nn.fully_connected import Connected, ConnectedNetwork
from posattn.nn.gpt import GPT, Gpt
from posattn.nn.hybrid import Hybrid, HybridTransformer
from posattn.nn.mixed_type import MixedPositional, MixedPositionalTransformer, MixedStandard, MixedStandardTransformer
from posattn.nn.module import Model, NumericModel, load, model_of
from posattn.nn.positional import Positional, PositionalTransformer
from posattn.nn.random_places import Placed, PlacedTransformer
from posattn.nn.selector import Selector, SelectorTransformer
from posattn.nn.standard import Standard, StandardTransformer

__all__ = [
    "ABLATIONS",
    "GPT",
    "Architecture",
    "Connected",
    "ConnectedNetwork",
    "ExactPositional",
    "ExactPositionalTransformer",
    "Gpt",
    "Hybrid",
    "HybridTransformer",
    "MixedPositional",
    "MixedPositionalTransformer",
    "MixedStandard",
    "MixedStandardTransformer",
    "Model",
    "NumericModel",
    "Placed",
    "PlacedTransformer",
    "Positional",
    "PositionalTransformer",
    "Selector",
    "SelectorTransformer",
    "Standard",
    "StandardTransformer",
    "ablation",
    "from_json",
    "load",
    "model_of",
]
