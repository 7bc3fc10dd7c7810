"""The language of local functions: what a node may compute from its own registers and the words it received.

    +, −, constants, scaling, relu, min, max, abs       piecewise linear, exact in ReLU units
    clip(e, low=, high=), ramp(e, width=)               cut off at two numbers; from 0 to 1 within a width
    word * word, word / word                            linear where one of the two is constant at every node
    gate(e, shut)                                       e where `shut` is 0, and 0 where it is 1 or more
    select(bit, e, f)                                   e where the bit is 1, f where it is 0
    exchange(own, other, upper)                         the smaller of two at the lower node, the larger at the upper
    positive(e, grid), equal(e, f, grid)                the bits e > 0 and e = f, for numbers on a grid
    modulo(e, m, …), floor_divide(e, m, …)              for numbers on a grid, within bounds
    call(function, e, …)                                anything else: runs, but only a fit can compile it

Expressions are frozen dataclasses (`tree`), written with operators and the functions in `functions`.
`interpreter` evaluates one in NumPy, `lowering.expression_bounds` bounds its values, and
`posattn.compile.lowering.relu` turns it into ReLU units.
"""

from posattn.compile.expressions.functions import (
    absolute,
    call,
    clip,
    distance,
    equal,
    exchange,
    floor_divide,
    gate,
    maximum,
    minimum,
    modulo,
    positive,
    product,
    ramp,
    relu,
    select,
    sigmoid,
    word,
)
from posattn.compile.expressions.line import Line
from posattn.compile.expressions.traverse import (
    Once,
    children,
    raised,
    rebuilt,
    renamed,
    shared_parts,
    walk,
    words_of,
)
from posattn.compile.expressions.tree import (
    Array,
    Call,
    Constant,
    Equal,
    Exchange,
    Expression,
    Gate,
    Maximum,
    Minimum,
    Positive,
    Product,
    Relu,
    Scaled,
    Select,
    Sum,
    Word,
    as_expression,
)

__all__ = [
    "Array",
    "Call",
    "Constant",
    "Equal",
    "Exchange",
    "Expression",
    "Gate",
    "Line",
    "Maximum",
    "Minimum",
    "Once",
    "Positive",
    "Product",
    "Relu",
    "Scaled",
    "Select",
    "Sum",
    "Word",
    "absolute",
    "as_expression",
    "call",
    "children",
    "clip",
    "distance",
    "equal",
    "exchange",
    "floor_divide",
    "gate",
    "maximum",
    "minimum",
    "modulo",
    "positive",
    "product",
    "raised",
    "ramp",
    "rebuilt",
    "relu",
    "renamed",
    "select",
    "shared_parts",
    "sigmoid",
    "walk",
    "word",
    "words_of",
]
