"""Functions from outside the language that files and texts may name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from posattn.compile.expressions.functions import product

FUNCTIONS: dict[str, Callable[..., Any]] = {"exp": np.exp, "product": product, "reciprocal": np.reciprocal}
#: The number of arguments, where it is not one.
ARGUMENTS = {"product": 2}
