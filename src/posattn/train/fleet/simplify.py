"""A traced step made shorter: what it computes stays, up to rounding.

A trace of `vmap` is full of products with 1 and of views that change nothing, and a network that applies the same
weights many times, as a recurrent one does, adds up one small gradient after the other. The passes, in this order:

    drop      operations whose result is their input
    merge     operations that appear twice
    collect   Σ Aᵢᵀ·Bᵢ as one product, [A₁; A₂; …]ᵀ·[B₁; B₂; …], and Σ of column sums as one sum over [B₁; B₂; …]
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.shape_prop import TensorMetadata

aten = torch.ops.aten

#: Views that only rename axes: the same shape means the same tensor.
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.reshape.default)
#: Operations that move nothing.
FREE = (
    *VIEWS,
    aten.transpose.int,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.unsqueeze.default,
    aten.squeeze.dims,
    aten.detach.default,
    aten.t.default,
)
SCALED = (aten.mul.Scalar, aten.div.Scalar, aten.mul.Tensor, aten.div.Tensor)
#: Products are collected from so many on.
FEWEST = 3


def simplified(module: GraphModule) -> GraphModule:
    """The same function by fewer operations."""
    graph = module.graph
    drop(graph)
    merge(graph)
    collect(graph)
    merge(graph)
    graph.eliminate_dead_code()
    module.recompile()
    return module


def shape(node: Node) -> tuple[int, ...] | None:
    """The shape of a node's tensor."""
    held = node.meta.get("tensor_meta")
    return tuple(held.shape) if isinstance(held, TensorMetadata) else None


def mean_numbers(module: GraphModule) -> float:
    """How many numbers an operation of a graph gives, on average, views left out."""
    found = [shape(node) for node in module.graph.nodes if node.op == "call_function" and node.target not in FREE]
    counts = [math.prod(one) for one in found if one is not None]
    return sum(counts) / max(1, len(counts))


def drop(graph: Graph) -> None:
    """Drop what changes nothing: detach, products with 1, views to the same shape."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        source = node.args[0] if node.args else None
        if not isinstance(source, Node):
            continue
        same = shape(node) is not None and shape(node) == shape(source)
        idle = node.target is aten.detach.default or (node.target in SCALED and _is_one(node.args[1]))
        if (idle and _dtype(node) == _dtype(source)) or (node.target in VIEWS and same):
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def _is_one(factor: Any) -> bool:
    return isinstance(factor, (int, float)) and factor == 1


def _dtype(node: Node) -> Any:
    held = node.meta.get("tensor_meta")
    return held.dtype if isinstance(held, TensorMetadata) else None


def merge(graph: Graph) -> None:
    """Compute what appears twice once; nothing that is random or writes into a tensor is touched."""
    seen: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or not _is_pure(node.target):
            continue
        key = (node.target, repr(node.args), repr(sorted(node.kwargs.items())))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _is_pure(target: Any) -> bool:
    """Whether an operation is a function of its arguments that gives a tensor which nobody writes into."""
    if not isinstance(target, torch._ops.OpOverload):
        return callable(target) and getattr(target, "__name__", "") == "getitem"
    schema = target._schema
    written = any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)
    drawn = torch.Tag.nondeterministic_seeded in target.tags or target.namespace != "aten"
    made = "empty" in schema.name  # filled later, each by what it is for
    return not written and not drawn and not made


def collect(graph: Graph) -> None:
    """Replace sums of products, and sums of column sums, by one each."""
    for node in list(graph.nodes):
        if node.target is not aten.add.Tensor or any(user.target is aten.add.Tensor for user in node.users):
            continue
        terms = _terms(node)
        if len(terms) < FEWEST:
            continue
        for collected in (_one_product, _one_sum):
            made = collected(graph, node, terms)
            if made is not None:
                node.replace_all_uses_with(made)
                break


def _terms(node: Node) -> list[Node]:
    """The terms of a sum, where every partial sum is used once and has the same shape."""
    found: list[Node] = []
    open_ = [node]
    while open_:
        one = open_.pop()
        plain = one.target is aten.add.Tensor and len(one.args) == 2 and not one.kwargs and shape(one) == shape(node)
        parts = [part for part in one.args if isinstance(part, Node)] if plain else []
        if len(parts) == 2 and (one is node or len(one.users) == 1):
            open_ += parts
        else:
            found.append(one)
    return found


def _one_product(graph: Graph, node: Node, terms: list[Node]) -> Node | None:
    """Σ (Aᵢᵀ·Bᵢ) or Σ (Aᵢᵀ·Bᵢ)ᵀ, with the sum over the rows of Aᵢ and Bᵢ, as one product of tall matrices."""
    turned = all(_is_transpose(term) for term in terms)
    products: list[Any] = [term.args[0] if turned else term for term in terms]
    if not all(isinstance(one, Node) and one.target is aten.bmm.default for one in products):
        return None
    lefts = [one.args[0] for one in products]
    if not all(_is_transpose(left) for left in lefts):
        return None
    tall = [[left.args[0] for left in lefts], [one.args[1] for one in products]]
    if not all(isinstance(part, Node) and len(shape(part) or ()) == 3 for side in tall for part in side):
        return None
    with graph.inserting_before(node):
        a, b = (_called(graph, aten.cat.default, side, 1) for side in tall)
        found = _called(graph, aten.bmm.default, _called(graph, aten.transpose.int, a, 1, 2), b)
        return _called(graph, aten.transpose.int, found, 1, 2) if turned else found


def _one_sum(graph: Graph, node: Node, terms: list[Node]) -> Node | None:
    """Σ of the column sums of Bᵢ as one column sum of tall B."""
    sums: list[Any] = [term.args[0] if term.target in VIEWS else term for term in terms]
    if not all(_is_column_sum(one) for one in sums):
        return None
    parts = [one.args[0] for one in sums]
    with graph.inserting_before(node):
        joined = _called(graph, aten.cat.default, parts, 1)
        found = _called(graph, aten.sum.dim_IntList, joined, [1], True)
        return _called(graph, aten.view.default, found, list(shape(node) or ()))


def _is_column_sum(node: Any) -> bool:
    """Whether a node sums the rows of a stack of matrices."""
    is_one = isinstance(node, Node) and node.target is aten.sum.dim_IntList
    given: Any = node.args if is_one else ((), ())
    return is_one and list(given[1]) == [1] and isinstance(given[0], Node) and len(shape(given[0]) or ()) == 3


def _is_transpose(node: Any) -> bool:
    """Whether a node is the transpose of a stack of matrices, whose axes may be counted from either end."""
    is_one = isinstance(node, Node) and node.target is aten.transpose.int and len(shape(node) or ()) == 3
    axes: Any = node.args[1:] if is_one else ()
    return {axis % 3 for axis in axes} == {1, 2}


def _called(graph: Graph, target: Callable[..., Any], *args: Any) -> Node:
    return graph.call_function(target, args)
