"""A fleet does what the loop that one writes first does: the model itself, torch.optim, torch's schedule."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, ReduceLROnPlateau

from posattn.nn import GPTArchitecture, MixedPositional, Positional, Standard, model_of
from posattn.train import Fleet, Trial

from .small import SHARP, SUMMANDS, difference, shake, small_trial

#: The matrices of linear maps, which weight decay is for; biases and embeddings are spared.
MAPS = {"encoder", "query", "key", "value", "output", "mlp_in", "mlp_middle", "mlp_out", "decoder"}
KHOP: dict[str, Any] = {
    "task": "khop",
    "task_options": {"characters": 9},
    "data": {"samples": 13, "options": {}},
    "evaluation": {"sets": {}},
}
MIXED: dict[str, Any] = {"task": "mixed-sum", "data": {"samples": 13, "options": {}}, "evaluation": {"sets": {}}}
ADAMW = {"name": "adamw", "lr": 5e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, "clip": 1.0}
PLATEAU = {"schedule": "plateau", "patience": 0, "factor": 0.8}
POSITIONAL_KHOP: dict[str, Any] = KHOP | {"model": GPTArchitecture(length=10, embed_dim=6, layers=2, positional=True)}


class PlainLoop:
    """One model trained as its trial says, with nothing of posattn but the model."""

    def __init__(self, trial: Trial, first: dict[str, Tensor]) -> None:
        o = self.o = trial.optimiser
        self.model = model_of(trial.model, first)
        decayed, spared = [], []
        for name, tensor in self.model.named_parameters():
            matrix = name.endswith(".weight") and not MAPS.isdisjoint(name.split("."))
            (decayed if matrix else spared).append(tensor)
        groups: list[dict[str, Any]] = [
            {"params": decayed, "weight_decay": o.weight_decay},
            {"params": spared, "weight_decay": 0.0},
        ]
        self.optimiser: torch.optim.Optimizer
        if o.name == "sgd":
            self.optimiser = torch.optim.SGD(groups, lr=o.lr, momentum=o.momentum)
        else:
            kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[o.name]
            self.optimiser = kind(groups, lr=o.lr, betas=o.betas, eps=o.eps)
        self.each_step: Any = None
        if o.schedule == "cosine":
            self.each_step = CosineAnnealingLR(self.optimiser, o.steps)
        if o.schedule == "one-cycle":
            self.each_step = OneCycleLR(self.optimiser, o.lr, total_steps=o.steps, cycle_momentum=False)
        self.plateau = ReduceLROnPlateau(self.optimiser, factor=o.factor, patience=o.patience, min_lr=o.floor, eps=0)
        self.losses: list[float] = []
        self.batches = trial.data.batches

    def step(self, inputs: list[Tensor], target: Tensor) -> None:
        prediction = self.model(*inputs)
        loss = mse_loss(prediction, target) if target.is_floating_point() else cross_entropy(prediction.mT, target)
        self.optimiser.zero_grad()
        loss.backward()
        if self.o.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.o.clip)
        self.optimiser.step()
        self.losses.append(loss.item())
        if self.each_step is not None and len(self.losses) < self.o.steps:
            self.each_step.step()
        if self.o.schedule == "plateau" and len(self.losses) % self.batches == 0:
            self.plateau.step(sum(self.losses[-self.batches :]) / self.batches)

    def weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach() for name, tensor in self.model.weights().items()}


def batches(fleet: Fleet) -> Iterator[list[tuple[list[Tensor], Tensor]]]:
    """Train the fleet, giving each replica's batch of each step, picked by hand from its samples in its order."""
    met = [0] * len(fleet.data.parts)
    for done in fleet.run():
        number = fleet.data.turn(done - 1)
        part, picked = fleet.data.parts[number], []
        for replica, trial in enumerate(fleet.trials):
            start = met[number] * trial.data.batch % (trial.data.share // trial.data.batch * trial.data.batch)
            rows = part.order[replica, start : start + trial.data.batch]
            *inputs, target = (tensor[replica, rows] for tensor in part.tensors)
            picked.append((inputs, target))
        met[number] += 1
        yield picked


CASES: dict[str, dict[str, Any]] = {
    "plateau": {"optimiser": PLATEAU | {"steps": 100}},
    "no biases, clipped": {"bias": False, "optimiser": PLATEAU | {"steps": 40, "clip": 0.5}},
    "lengths": {"data": {"lengths": (2, 3, 5), "options": {}}, "optimiser": PLATEAU | {"steps": 45}},
    "fresh": {"data": {"fresh": True}, "optimiser": {"schedule": "cosine"}},
    "sgd": {"optimiser": {"name": "sgd", "momentum": 0.9, "weight_decay": 0.01, "schedule": "one-cycle"}},
    "decay in adam": {"optimiser": {"name": "adam", "weight_decay": 0.01}},
    "standard": {"model": Standard(length=5, embed_dim=6, hidden_dim=7, layers=2)},
    "deeper MLP": {"model": Positional(length=5, embed_dim=6, hidden_dim=7, layers=1, mlp_layers=3), "task": "sort"},
    "gpt": KHOP | {"model": GPTArchitecture(length=10, embed_dim=6, layers=2), "optimiser": ADAMW | {"steps": 12}},
    "positional gpt": POSITIONAL_KHOP | {"optimiser": ADAMW | {"steps": 12, "clip": 0.1}},
    "mixed": MIXED | {"model": MixedPositional(embed_dim=6, hidden_dim=7, layers=1), "optimiser": {"steps": 6}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_fleet_ends_where_plain_loops_end(case):
    fields = CASES[case]
    options = fields.get("optimiser", {})
    rates = [options.get("lr", 1e-2) * factor for factor in (1, 2)]
    trials = [
        small_trial(**fields | {"seed": seed, "optimiser": options | {"lr": lr}}) for seed, lr in enumerate(rates)
    ]
    fleet, generator = Fleet(trials, device="cpu"), torch.Generator().manual_seed(0)
    firsts = [(trial, fleet.weights(replica)) for replica, trial in enumerate(trials)]
    loops, shaken = ([PlainLoop(*first) for first in firsts] for _ in range(2))
    for picked in batches(fleet):
        for loop, other, (inputs, target) in zip(loops, shaken, picked, strict=True):
            loop.step(inputs, target)
            other.step(inputs, target)
            shake(other.model.parameters(), generator)
    for replica, (loop, other) in enumerate(zip(loops, shaken, strict=True)):
        limit = SUMMANDS * difference(loop.weights(), other.weights())
        assert limit < SHARP
        assert difference(fleet.weights(replica), loop.weights()) < limit
        apart = max(abs(one - two) for one, two in zip(loop.losses, other.losses, strict=True))
        limit = SUMMANDS * (apart + torch.finfo(torch.float64).eps * max(loop.losses))
        assert limit < SHARP
        assert abs(fleet.loss[replica].item() - loop.losses[-1]) < limit
        epochs = len(loop.losses) // loop.batches
        last = loop.losses[(epochs - 1) * loop.batches : epochs * loop.batches]
        assert abs(fleet.scores()[replica]["train"].loss - sum(last) / len(last)) < limit
    if case == "plateau":
        found = fleet.schedule.state["rate"].tolist()
        assert found == pytest.approx([loop.optimiser.param_groups[0]["lr"] for loop in loops], rel=1e-12)
        assert all(lowered < rate for lowered, rate in zip(found, rates, strict=True))
