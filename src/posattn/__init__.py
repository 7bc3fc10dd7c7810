"""A workbench for Transformers that execute algorithms through position.

Models and `load` are here; everything else lies in `posattn.nn`, `tasks`, `train`, `engine`, `compile`, `theory`, `zoo`
and `studies`, which are loaded when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from posattn.errors import PosattnError
from posattn.version import __version__

if TYPE_CHECKING:
    from posattn import (
        bench,
        compile,
        encodings,
        engine,
        nn,
        plugins,
        published,
        report,
        studies,
        tasks,
        theory,
        train,
        zoo,
    )
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
    "bench",
    "compile",
    "encodings",
    "engine",
    "load",
    "nn",
    "plugins",
    "published",
    "report",
    "studies",
    "tasks",
    "theory",
    "train",
    "zoo",
]

#: What `posattn.nn` gives; all other public names are parts of the package.
_MODELS = (
    "GPT",
    "HybridTransformer",
    "MixedPositionalTransformer",
    "MixedStandardTransformer",
    "PositionalTransformer",
    "StandardTransformer",
    "ablation",
    "load",
)


def __getattr__(name: str) -> Any:
    """Load a part when it is first used: importing torch takes a second, and `posattn --version` needs none of it."""
    if name in _MODELS:
        found = getattr(importlib.import_module("posattn.nn"), name)
    elif name in __all__:
        found = importlib.import_module(f"posattn.{name}")
    else:
        raise AttributeError(f"module 'posattn' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
