"""Sums as the model adds them up: how many terms, how large, how far off already."""

import math
from typing import NamedTuple

import numpy as np

from posattn.compile.expressions import Array


class Parts(NamedTuple):
    """A linear form as the model adds it up, at every node."""

    terms: Array  # how many of its terms can differ from 0
    size: Array  # Σ |term|, at most
    error: Array  # Σ |coefficient|·error of the unit behind it
    grain: Array  # a power of two of which every term is a multiple; 0: none is known, ∞: every term is 0
    factors: int  # roundings of a coefficient and its product


def nothing(nodes: int) -> Parts:
    zero = np.zeros(nodes)
    return Parts(zero, zero, zero, np.full(nodes, math.inf), 0)


def together(*all_parts: Parts) -> Parts:
    return Parts(
        np.sum([parts.terms for parts in all_parts], axis=0),
        np.sum([parts.size for parts in all_parts], axis=0),
        np.sum([parts.error for parts in all_parts], axis=0),
        np.min([parts.grain for parts in all_parts], axis=0),
        max(parts.factors for parts in all_parts),
    )


def either(one: Parts, other: Parts) -> Parts:
    return Parts(
        np.maximum(one.terms, other.terms),
        np.maximum(one.size, other.size),
        np.maximum(one.error, other.error),
        np.minimum(one.grain, other.grain),
        max(one.factors, other.factors),
    )


def chosen(condition: Array, one: Parts, other: Parts) -> Parts:
    return Parts(
        np.where(condition, one.terms, other.terms),
        np.where(condition, one.size, other.size),
        np.where(condition, one.error, other.error),
        np.where(condition, one.grain, other.grain),
        max(one.factors, other.factors),
    )
