"""Adam, AdamW and SGD over the flat parameters of a fleet, with a rate, a clip and a freeze for each replica."""

from importlib.util import find_spec

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posattn.train.fleet.parameters import FlatParameters
from posattn.train.trial_parts import Optimiser


class Update:
    """One step of the optimiser. `state` is all that has to be kept for going on."""

    def __init__(self, optimiser: Optimiser, parameters: FlatParameters) -> None:
        self.optimiser = optimiser
        self.parameters = parameters
        self.state = {"first": torch.zeros_like(parameters.values)}
        if optimiser.name != "sgd":
            self.state["second"] = torch.zeros_like(parameters.values)
        self.one_kernel = (
            optimiser.name != "sgd"
            and parameters.values.is_cuda
            and parameters.values.dtype == torch.float32
            and find_spec("triton") is not None  # not every build of PyTorch brings it
        )
        self.decayed = parameters.decaying().to(parameters.values.dtype) if optimiser.weight_decay else None

    def healthy(self) -> Bool[Tensor, " replicas"]:
        """Clip the gradients where asked to, and say which replicas have finite ones."""
        grad = self.parameters.grad
        if self.parameters.masked:
            grad.mul_(self.parameters.learned)
        norm = torch.linalg.vector_norm(grad, dim=1)
        if self.optimiser.clip is not None:
            factor = (self.optimiser.clip / (norm + 1e-6)).clamp(max=1)
            # A gradient of 0 that no step writes must not become NaN: it would stay that.
            grad.mul_(torch.where(norm.isfinite(), factor, 0.0).unsqueeze(1))
        return norm.isfinite()

    def apply(self, step: Int[Tensor, ""], rate: Float[Tensor, " replicas"], alive: Bool[Tensor, " replicas"]) -> None:
        """Change the weights of the replicas that are alive; the others stay as they are."""
        o, grad, values = self.optimiser, self.parameters.grad, self.parameters.values
        count = (step + 1).double()  # 1 − β₂ᵗ is small at first, and float32 would keep few of its digits
        if self.one_kernel:
            from posattn.nn.kernels.adam import adam_

            shrunk = torch.stack([1 - beta**count for beta in o.betas]).to(values.dtype)
            adam_(
                values, grad, self.state["first"], self.state["second"], rate=rate.contiguous(), alive=alive,
                shrunk=shrunk, betas=o.betas, eps=o.eps, decayed=self.decayed, decay=o.weight_decay,
                decoupled=o.name == "adamw",
            )  # fmt: skip
            return
        # A dead replica's gradient may be NaN, and NaN times 0 is NaN: it is replaced, not scaled.
        grad.copy_(torch.where(alive.unsqueeze(1), grad, 0.0))
        rate = (rate * alive).unsqueeze(1)
        if o.name == "adamw" and self.decayed is not None:
            values.sub_(values * self.decayed * (rate * o.weight_decay))
        elif self.decayed is not None:
            grad = grad.add(values * self.decayed, alpha=o.weight_decay)
        if o.name == "sgd":
            first = self.state["first"].mul_(o.momentum).add_(grad)
            values.sub_(rate * first)
            return
        beta1, beta2 = o.betas
        first = self.state["first"].lerp_(grad, 1 - beta1)
        second = self.state["second"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        scale = rate / (1 - beta1**count).to(values.dtype)
        values.addcdiv_(first * -scale, (second / (1 - beta2**count).to(values.dtype)).sqrt_().add_(o.eps))
