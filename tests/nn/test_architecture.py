"""What an architecture of a user's must have besides its fields."""

from dataclasses import dataclass

import pytest
import torch

from posattn import PosattnError
from posattn.nn import Positional, model_of
from posattn.nn.architecture import ARCHITECTURES
from posattn.train import Fleet, Optimiser, Trial


def test_an_architecture_without_its_model_is_named_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr("posattn.nn.architecture.ARCHITECTURES", dict(ARCHITECTURES))

    @dataclass(frozen=True, kw_only=True)
    class Mine(Positional):
        kind = "mine"

    message = r"the architecture Mine \(kind 'mine'\) has no model: write its module, .* with describes = Mine"
    with pytest.raises(PosattnError, match=message):
        model_of(Mine(), Mine().init(torch.Generator().manual_seed(0)))
    with pytest.raises(PosattnError, match=message):
        Fleet([Trial(task="sum", model=Mine(), optimiser=Optimiser(steps=1))], device="cpu")


def test_an_architecture_without_a_kind_is_refused():
    from posattn.nn.architecture import Architecture

    class Nameless(Architecture):
        def parameters(self):
            return {}

        def forward(self, p, *inputs):
            return inputs[0]

        def check(self, *inputs):
            return None

    with pytest.raises(PosattnError, match="the architecture Nameless has no kind: give its class one"):
        Nameless()
