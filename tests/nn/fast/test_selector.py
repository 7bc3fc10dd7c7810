"""The selector in fleets, tokens and encodings apart: the model's values and gradients."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nn import oracle
from nn.fast.equality import assert_equals_the_model
from nn.test_selector import CHOICES, model, samples, seeded
from posattn.nn.fast.selector import codes_of, solve_ones, split


@pytest.mark.parametrize("blocks", ["all", "surviving"])
@pytest.mark.parametrize("shape", [{}, {"length": 6, "subset_size": 4}], ids=["whole", "fewer tokens"])
@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_it_equals_the_model(options: dict[str, Any], shape: dict[str, int], blocks: str) -> None:
    models = [model(**options, blocks=blocks, seed=seed) for seed in (2, 3)]
    inputs = [x.unflatten(0, (2, 3)) for x in samples(6, **shape)[0]]
    assert_equals_the_model(
        partial(split, models[0].architecture), models[0].architecture, oracle.stacked(models), *inputs
    )


@settings(max_examples=30)
@given(st.integers(1, 8), st.integers(0, 1000))
def test_solve_ones_is_the_inverse_times_ones(q: int, seed: int) -> None:
    root = torch.randn(3, q, q + 4, generator=seeded(seed), dtype=torch.float64)
    gram = root @ root.mT
    wanted = np.linalg.solve(gram.numpy(), np.ones((3, q, 1)))[..., 0]
    np.testing.assert_allclose(solve_ones(gram).numpy(), wanted, rtol=1e-6)


def test_a_certificate_meets_every_chosen_encoding_with_one() -> None:
    sizes = model(encoding="stochastic", encoding_dim=30).architecture
    codes = codes_of(sizes, {}, torch.tensor([[5]]), 11, torch.float64)
    chosen = codes.chosen(torch.tensor([[[1, 4, 9]]]))
    query = (solve_ones(chosen @ chosen.mT).unsqueeze(-2) @ chosen).squeeze(-2)
    assert codes.products(query)[0, 0, [1, 4, 9]].tolist() == pytest.approx([1.0, 1.0, 1.0])
