"""Stochastic encodings are the bits of splitmix64, and as good as independent."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posattn.nn.fast.token_encodings import as_signs
from posattn.nn.token_encodings import random_signs, random_words

from . import splitmix64


def signs_of(key: Tensor, tokens: int, width: int) -> Tensor:
    return random_signs(key.unsqueeze(-1), torch.arange(tokens), width, torch.float64)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 5), st.integers(1, 140))
def test_signs_are_the_bits_of_splitmix64(key: int, tokens: int, width: int) -> None:
    found = signs_of(torch.tensor([key]), tokens, width)[0].numpy()
    np.testing.assert_array_equal(found, splitmix64.signs(key, tokens, width))


def test_signs_of_different_keys_tokens_and_dimensions_are_independent() -> None:
    signs = signs_of(torch.arange(50), 40, 128)
    assert abs(signs.mean()) < 4 / math.sqrt(signs.numel())
    for flat in (signs.transpose(0, 1).flatten(1), signs.flatten(1), signs.permute(2, 0, 1).flatten(1)):
        count = flat.shape[1]
        products = flat @ flat.T / count
        beside = products - products.diag().diag()
        assert beside.abs().max() < 6 / math.sqrt(count)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 5), st.integers(1, 140))
def test_signs_from_a_table_of_bytes_are_the_same(key: int, tokens: int, width: int) -> None:
    words = random_words(torch.tensor([[key]]), torch.arange(tokens), width)
    assert torch.equal(as_signs(words, width, torch.float64), signs_of(torch.tensor([key]), tokens, width))


def test_how_often_random_signs_are_dependent_is_what_the_refusal_counts_with() -> None:
    signs = signs_of(torch.arange(100_000), 3, 7)
    pairs = (signs @ signs.mT).abs().tril(-1) == 7
    share = pairs.flatten(1).any(1).double().mean().item()
    assert share == pytest.approx(6 / 2**7, rel=0.05)
