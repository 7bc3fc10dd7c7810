"""The paper's ablations, each a composition of parts that exist anyway.

What varies: which input the nodes see, and what queries and keys are made of (X: values, P: positions).
"""

from typing import Any

from posattn.errors import unknown
from posattn.nn.hybrid import HybridTransformer
from posattn.nn.model import NumericModel
from posattn.nn.positional import PositionalTransformer
from posattn.nn.standard import StandardTransformer

ABLATIONS: dict[str, tuple[type[NumericModel[Any]], dict[str, Any], str]] = {
    "M0": (StandardTransformer, {}, "standard attention, input X‖P"),
    "M1": (PositionalTransformer, {"constants": "one-hot"}, "positional attention, input X‖P"),
    "M2": (StandardTransformer, {"append_encoding": False}, "standard attention, input X"),
    "M3": (HybridTransformer, {}, "queries and keys from X‖P, input X"),
    "M4": (StandardTransformer, {"append_encoding": False, "rotary": True}, "rotary attention, input X"),
    "M5": (PositionalTransformer, {}, "positional attention, input X"),
}


def ablation(name: str, **options: Any) -> NumericModel[Any]:
    """The model of one row of the paper's ablation table."""
    if name not in ABLATIONS:
        raise unknown("ablation", name, ABLATIONS)
    model, fixed, _ = ABLATIONS[name]
    return model(**(options | fixed))
