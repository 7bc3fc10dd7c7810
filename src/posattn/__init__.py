"""A workbench for Transformers that execute algorithms through position."""

from posattn import encodings, nn, tasks
from posattn.errors import PosattnError
from posattn.nn import (
    GPT,
    HybridTransformer,
    MixedPositionalTransformer,
    MixedStandardTransformer,
    PositionalTransformer,
    StandardTransformer,
    ablation,
    load,
)

__version__ = "0.1.0"

__all__ = [
    "GPT",
    "HybridTransformer",
    "MixedPositionalTransformer",
    "MixedStandardTransformer",
    "PosattnError",
    "PositionalTransformer",
    "StandardTransformer",
    "__version__",
    "ablation",
    "encodings",
    "load",
    "nn",
    "tasks",
]
