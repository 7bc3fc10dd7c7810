"""The models: what a forward pass is. Start reading at `posattn.nn.positional`."""

from posattn.nn import law
from posattn.nn.ablations import ABLATIONS, ablation
from posattn.nn.alibi import Alibi, AlibiTransformer
from posattn.nn.any_module import AnyModule
from posattn.nn.architecture import Architecture, from_json
from posattn.nn.compiled_positional import ExactPositional, ExactPositionalTransformer
from posattn.nn.fully_connected import FullyConnected, FullyConnectedNetwork
from posattn.nn.gpt import GPT, GPTArchitecture
from posattn.nn.hop_tables import HopTables, HopTablesModel
from posattn.nn.hybrid import Hybrid, HybridTransformer
from posattn.nn.looped import Looped, LoopedPositionalTransformer
from posattn.nn.looped_slopes import LoopedSlopes, LoopedSlopesModel
from posattn.nn.looped_standard import LoopedStandard, LoopedStandardTransformer
from posattn.nn.mixed_gated import MixedGated, MixedGatedModel
from posattn.nn.mixed_type import MixedPositional, MixedPositionalTransformer, MixedStandard, MixedStandardTransformer
from posattn.nn.module import Model, Step, load, model_of
from posattn.nn.numeric_model import NumericModel
from posattn.nn.onnx import OnnxFile, to_onnx
from posattn.nn.positional import Positional, PositionalTransformer
from posattn.nn.random_places import (
    RandomPlaces,
    RandomPlacesTransformer,
    StandardRandomPlaces,
    StandardRandomPlacesTransformer,
)
from posattn.nn.selector import Selector, SelectorTransformer
from posattn.nn.standard import Standard, StandardTransformer
from posattn.nn.symmetry import Action

__all__ = [
    "ABLATIONS",
    "GPT",
    "Action",
    "Alibi",
    "AlibiTransformer",
    "AnyModule",
    "Architecture",
    "ExactPositional",
    "ExactPositionalTransformer",
    "FullyConnected",
    "FullyConnectedNetwork",
    "GPTArchitecture",
    "HopTables",
    "HopTablesModel",
    "Hybrid",
    "HybridTransformer",
    "Looped",
    "LoopedPositionalTransformer",
    "LoopedSlopes",
    "LoopedSlopesModel",
    "LoopedStandard",
    "LoopedStandardTransformer",
    "MixedGated",
    "MixedGatedModel",
    "MixedPositional",
    "MixedPositionalTransformer",
    "MixedStandard",
    "MixedStandardTransformer",
    "Model",
    "NumericModel",
    "OnnxFile",
    "Positional",
    "PositionalTransformer",
    "RandomPlaces",
    "RandomPlacesTransformer",
    "Selector",
    "SelectorTransformer",
    "Standard",
    "StandardRandomPlaces",
    "StandardRandomPlacesTransformer",
    "StandardTransformer",
    "Step",
    "ablation",
    "from_json",
    "law",
    "load",
    "model_of",
    "to_onnx",
]
