"""Learning rates over time, one for each replica, as tensor arithmetic: nothing leaves the device."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posattn.train.trial_parts import Optimiser

#: A loss counts as better when it is this much, relatively, below the best one so far (PyTorch's default).
BETTER = 1e-4
ONE_CYCLE_RISE, ONE_CYCLE_START, ONE_CYCLE_END = 0.3, 25.0, 1e4


class Schedule:
    """The learning rate of each replica at each step. `state` is all that has to be kept for going on."""

    def __init__(
        self, optimiser: Optimiser, rates: Float[Tensor, " replicas"], batches: Int[Tensor, " replicas"]
    ) -> None:
        self.optimiser = optimiser
        self.rates = rates
        self.batches = batches
        zeros = torch.zeros_like(rates)
        self.state = {
            "rate": rates.clone(),
            "best": torch.full_like(rates, math.inf),
            "stale": zeros.clone(),
            "epoch_loss": zeros.clone(),
            "last_epoch_loss": torch.full_like(rates, math.nan),
        }

    def rate(self, step: Int[Tensor, ""]) -> Float[Tensor, " replicas"]:
        """The rate for the step with this number, counted from 0."""
        o = self.optimiser
        done = step.to(self.rates.dtype)
        rate = self.state["rate"] if o.schedule == "plateau" else self.rates * self._share(done / o.steps, done)
        return rate * ((done + 1) / o.warmup).clamp(max=1) if o.warmup else rate

    def _share(self, progress: Tensor, done: Tensor) -> Tensor:
        o = self.optimiser
        if o.schedule == "linear":
            return 1 - ((progress - o.decay_from) / (1 - o.decay_from)).clamp(0, 1)
        if o.schedule == "cosine":
            return _cosine(((progress - o.decay_from) / (1 - o.decay_from)).clamp(0, 1))
        if o.schedule == "drop":
            return torch.where(done >= math.ceil(o.decay_from * o.steps), o.factor, torch.ones_like(progress))
        if o.schedule == "one-cycle":
            rise = ONE_CYCLE_RISE * o.steps - 1
            low, end = 1 / ONE_CYCLE_START, 1 / (ONE_CYCLE_START * ONE_CYCLE_END)
            up = 1 + (low - 1) * _cosine((done / rise).clamp(0, 1))
            down = end + (1 - end) * _cosine(((done - rise) / (o.steps - 1 - rise)).clamp(0, 1))
            return torch.where(done <= rise, up, down)
        return torch.ones_like(progress)

    def observe(self, step: Int[Tensor, ""], loss: Float[Tensor, " replicas"]) -> None:
        """Take note of a step's loss; at the end of a replica's epoch, decide on its plateau."""
        s, o = self.state, self.optimiser
        s["epoch_loss"].add_(loss)
        ends: Bool[Tensor, " replicas"] = (step + 1) % self.batches == 0
        mean = s["epoch_loss"] / self.batches
        s["last_epoch_loss"].copy_(torch.where(ends, mean, s["last_epoch_loss"]))
        s["epoch_loss"].copy_(torch.where(ends, 0.0, s["epoch_loss"]))
        if o.schedule != "plateau":
            return
        better = ends & (mean < s["best"] * (1 - BETTER))
        s["best"].copy_(torch.where(better, mean, s["best"]))
        stale = torch.where(better, 0.0, s["stale"] + ends)
        spent = stale > o.patience
        s["stale"].copy_(torch.where(spent, 0.0, stale))
        lower = (s["rate"] * o.factor).clamp(min=o.floor)
        s["rate"].copy_(torch.where(spent, torch.minimum(s["rate"], lower), s["rate"]))


def _cosine(progress: Tensor) -> Tensor:
    """From 1 at 0 to 0 at 1."""
    return 0.5 * (1 + torch.cos(math.pi * progress))
