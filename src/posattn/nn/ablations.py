"""The paper's ablations, each a composition of parts that exist anyway.

What varies: which input the nodes see, and what queries and keys are made of (X: values, P: positions).
"""

from inspect import signature
from typing import Any

from posattn.checks import choice
from posattn.errors import PosattnError, unknown
from posattn.nn.hybrid import HybridTransformer
from posattn.nn.numeric_model import NumericModel
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
    choice("ablation", name, ABLATIONS)
    cls, fixed, summary = ABLATIONS[name]
    for option in fixed:
        if option in options:
            raise PosattnError(f"{option}={options[option]!r}: ablation {name} ({summary}) fixes it. Leave it out.")
    known = [option for option in signature(cls).parameters if option not in fixed]
    for option in options:
        if option not in known:
            raise unknown(f"option of ablation {name}", option, known)
    if name != "M1":
        return cls(**(options | fixed))
    same = {"constants": options.get("encoding", "one-hot"), "constants_dim": options.get("encoding_dim")}
    model = cls(**(options | same))
    model.get_buffer("constants").copy_(model.get_buffer("encoding"))  # X‖P and Q, K share P, even a random one
    return model
