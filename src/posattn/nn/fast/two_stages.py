"""A form in two stages: what depends on the weights alone, and what is done with every sample."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from posattn.nn.initial_weights import Params


@dataclass(frozen=True)
class TwoStages:
    """`apply(fold(p, *inputs), *inputs)`; `fold` looks at the shape of inputs, never at their numbers.

    Whoever calls it as one function need not know. A CPU gains by knowing: matrices of many replicas are folded in the
    same few calls, and samples go through in pieces that fit its caches (`posattn.train.fleet.pieces`).
    """

    fold: Callable[..., Params]
    apply: Callable[..., Tensor]
    #: Numbers that a layer keeps for one sample until its gradient is known.
    kept: int

    def __call__(self, p: Params, *inputs: Tensor) -> Tensor:
        return self.apply(self.fold(p, *inputs), *inputs)
