"""Every mistake of a caller's is one `PosattnError` that names the value and what would be right."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from posattn import (
    GPT,
    HybridTransformer,
    MixedPositionalTransformer,
    MixedStandardTransformer,
    PosattnError,
    PositionalTransformer,
    StandardTransformer,
)

pytestmark = pytest.mark.usefixtures("as_users_run_it")

NUMERIC = [PositionalTransformer, StandardTransformer, HybridTransformer]
MIXED = [MixedPositionalTransformer, MixedStandardTransformer]
INFINITE = float("inf")


def refused(message: str) -> Any:
    return pytest.raises(PosattnError, match=re.escape(message))


def filled(*shape: int, at: tuple[int, ...], value: float) -> torch.Tensor:
    x = torch.zeros(shape)
    x[at] = value
    return x


@pytest.mark.parametrize("model", [*NUMERIC, *MIXED, GPT])
@pytest.mark.parametrize("value", [0, -1, 2.0, 2.5, "8", None, True, [8]])
def test_a_size_must_be_a_positive_whole_number(model, value):
    sizes = ["length", "embed_dim", "heads"] + ([] if value is None else ["layers"])
    for size in sizes:
        with refused(f"{size}={value!r}: it must be a whole number of at least 1."):
            model(**{size: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_dim": 0}, "in_dim=0: it must be a whole number of at least 1"),
        ({"out_dim": -3}, "out_dim=-3: it must be a whole number of at least 1"),
        ({"hidden_dim": 1.5}, "hidden_dim=1.5: it must be a whole number of at least 1"),
        ({"scratchpad": -1}, "scratchpad=-1: it must be a whole number of at least 0"),
        ({"scratchpad": 1.0}, "scratchpad=1.0: it must be a whole number of at least 0"),
        ({"mlp_layers": 1}, "mlp_layers=1: it must be a whole number of at least 2"),
        ({"mlp_layers": "3"}, "mlp_layers='3': it must be a whole number of at least 2"),
        ({"bias": "no"}, "bias='no': it must be True or False"),
        ({"embed_dim": 64, "heads": 3}, "embed_dim=64 is not divisible by heads=3"),
        ({"embed_dim": 64, "heads": 3}, "Use embed_dim=66 or another number of heads"),
        ({"encoding": "one_hot"}, "unknown encoding 'one_hot': did you mean 'one-hot'?"),
        ({"encoding": None}, "encoding is a NoneType: it must be the name of an encoding, or a tensor"),
        ({"encoding": np.eye(9)}, "encoding is an ndarray: it must be the name of an encoding, or a tensor"),
        ({"encoding": [[1.0]]}, "encoding is a list: it must be the name of an encoding, or a tensor"),
        ({"encoding": "given"}, "encoding='given' stands for a matrix: pass the matrix itself, encoding=P"),
        ({"encoding": "given", "encoding_dim": 4}, "encoding='given' stands for a matrix"),
        ({"encoding_dim": 4}, "encoding_dim=4: the one-hot encoding of 9 nodes has 9 dimensions. Leave"),
        ({"encoding": "sinusoidal", "encoding_dim": 5}, "encoding_dim=5: the sinusoidal encoding needs an even width"),
        ({"encoding": "stochastic", "encoding_dim": 0}, "encoding_dim=0: it must be a whole number of at least 1"),
        ({"encoding": "stochastic", "encoding_dim": 2.5}, "encoding_dim=2.5: it must be a whole number"),
        ({"constants": "binry"}, "unknown constants 'binry': did you mean 'binary'?"),
        ({"constants": "given"}, "constants='given' stands for a matrix: pass the matrix itself, constants=P"),
        ({"constants_dim": 4}, "constants_dim=4: there are no constants. Leave it out"),
        (
            {"encoding": torch.eye(8)},
            "encoding has 8 rows: it needs one for each of the model's length + scratchpad = 9",
        ),
        ({"constants": torch.eye(10)}, "constants has 10 rows: it needs one for each of"),
        ({"encoding": torch.ones(9)}, "encoding of shape (9,): it must be (nodes, width)"),
        ({"constants": torch.ones(1, 9, 9)}, "constants of shape (1, 9, 9): it must be (nodes, width)"),
        ({"encoding": torch.ones(9, 0)}, "encoding_dim=0: it must be a whole number of at least 1"),
        ({"encoding": filled(9, 2, at=(4, 1), value=INFINITE)}, "encoding: inf at [4, 1]. Remove NaN and infinite"),
        ({"constants": filled(9, 2, at=(0, 0), value=np.nan)}, "constants: nan at [0, 0]. Remove NaN and infinite"),
    ],
)
@pytest.mark.parametrize("model", NUMERIC)
def test_a_numeric_model_that_cannot_be_is_refused(model, options, message):
    with refused(message):
        model(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"append_encoding": "no"}, "append_encoding='no': it must be True or False"),
        ({"rotary": 1}, "rotary=1: it must be True or False"),
        (
            {"rotary": True, "embed_dim": 9, "heads": 3},
            "embed_dim=9: rotary turns pairs of dimensions, so it must be even",
        ),
    ],
)
def test_a_standard_model_that_cannot_be_is_refused(options, message):
    with refused(message):
        StandardTransformer(**options)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(8, 1), "the input has shape (8, 1): the model takes (batch, length, 1)"),
        (torch.zeros(2, 8), "the input has shape (2, 8): the model takes (batch, length, 1)"),
        (torch.zeros(2, 8, 3), "the input has shape (2, 8, 3): the model takes (batch, length, 1)"),
        (torch.zeros(2, 0, 1), "the input has shape (2, 0, 1): the model takes (batch, length, 1)"),
        (torch.zeros(1, 2, 8, 1), "the input has shape (1, 2, 8, 1)"),
        (torch.tensor(1.0), "the input has shape ()"),
        (filled(2, 8, 1, at=(1, 3, 0), value=np.nan), "the input: nan at [1, 3, 0]. Remove NaN and infinite values"),
        (filled(2, 8, 1, at=(0, 7, 0), value=-INFINITE), "the input: -inf at [0, 7, 0]"),
        (
            torch.zeros(2, 8, 1).double(),
            "the input has dtype torch.float64 and the model torch.float32: use x.to(torch",
        ),
        (torch.zeros(2, 8, 1).half(), "the input has dtype torch.float16 and the model torch.float32"),
        (torch.zeros(2, 8, 1).long(), "the input has dtype torch.int64, not floating point: use x.float()"),
        (torch.zeros(2, 8, 1).bool(), "the input has dtype torch.bool, not floating point: use x.float()"),
        (torch.zeros(2, 8, 1, device="meta"), "the input is on 'meta' and the model on 'cpu': use x.to('cpu')"),
        (np.zeros((2, 8, 1)), "the input is an ndarray: use torch.as_tensor(x)"),
        ([[[0.0]]], "the input is a list: use torch.as_tensor(x)"),
        (
            torch.zeros(2, 9, 1),
            "the input has length 9 and the one-hot encoding of the model 8: shorten it, or build the model with "
            "length=9",
        ),
    ],
)
@pytest.mark.parametrize("model", NUMERIC)
def test_a_numeric_input_that_does_not_fit_is_refused(model, x, message):
    with refused(message):
        model()(x)
    if model is StandardTransformer:
        with refused(message):
            model().attention(x)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (
            torch.zeros(8, 9),
            "encoding is (8, 9), torch.float32, on 'cpu': this input needs (9, 9) (length + scratchpad",
        ),
        (torch.zeros(9, 8), "encoding is (9, 8), torch.float32, on 'cpu': this input needs (9, 9)"),
        (torch.zeros(9), "encoding is (9,), torch.float32"),
        (torch.zeros(9, 9).double(), "encoding is (9, 9), torch.float64, on 'cpu': this input needs (9, 9)"),
        (
            torch.zeros(9, 9, device="meta"),
            "on 'meta': this input needs (9, 9) (length + scratchpad rows), torch.float32",
        ),
        (filled(9, 9, at=(2, 2), value=np.nan), "encoding: nan at [2, 2]"),
    ],
)
@pytest.mark.parametrize("model", NUMERIC)
def test_an_encoding_at_call_time_must_fit_the_input(model, encoding, message):
    with refused(message):
        model()(torch.zeros(2, 8, 1), encoding=encoding)


def test_a_longer_encoding_does_not_help_a_model_that_holds_constants():
    x, longer = torch.zeros(2, 9, 1), torch.zeros(10, 9)
    assert PositionalTransformer()(x, encoding=longer).shape == x.shape
    message = (
        "the input has length 9 and the binary constants of the model 8: shorten it, or build the model with length=9."
    )
    with refused(message) as caught:
        PositionalTransformer(constants="binary")(x, encoding=longer)
    assert "encoding=P" not in str(caught.value)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(5).long(), "tokens are (5,), torch.int64: the model takes (batch, at most 99), int64"),
        (torch.zeros(2, 100).long(), "tokens are (2, 100), torch.int64: the model takes (batch, at most 99)"),
        (torch.zeros(2, 0).long(), "tokens are (2, 0), torch.int64"),
        (torch.zeros(2, 5), "tokens are (2, 5), torch.float32: the model takes (batch, at most 99), int64"),
        (torch.zeros(2, 5).int(), "tokens are (2, 5), torch.int32: the model takes (batch, at most 99), int64"),
        (
            torch.full((2, 5), 16),
            "token 16 lies outside 0 … 15: correct it, or build the model with a larger vocabulary",
        ),
        (torch.full((2, 5), -1), "token -1 lies outside 0 … 15"),
        ([[1, 2]], "the input is a list: use torch.as_tensor(x)"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(tokens, message):
    with refused(message):
        GPT(layers=1)(tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary": 0}, "vocabulary=0: it must be a whole number of at least 1"),
        ({"positional": "yes"}, "positional='yes': it must be True or False"),
        ({"embed_dim": 61}, "embed_dim=61 is not divisible by heads=3"),
    ],
)
def test_a_gpt_that_cannot_be_is_refused(options, message):
    with refused(message):
        GPT(**options)


@pytest.mark.parametrize(
    ("characters", "numbers", "message"),
    [
        (torch.zeros(2, 89).long(), torch.zeros(2, 8), "characters (2, 89), torch.int64, and numbers (2, 8)"),
        (torch.zeros(2, 90).long(), torch.zeros(2, 9), "the model takes (batch, 90), int64, and (batch, 8), floats"),
        (torch.zeros(2, 90).long(), torch.zeros(3, 8), "characters (2, 90), torch.int64, and numbers (3, 8)"),
        (torch.zeros(90).long(), torch.zeros(8), "characters (90,), torch.int64, and numbers (8,)"),
        (torch.tensor(1), torch.zeros(2, 8), "characters (), torch.int64"),
        (torch.zeros(2, 90), torch.zeros(2, 8), "characters (2, 90), torch.float32"),
        (torch.zeros(2, 90).long(), torch.zeros(2, 8).long(), "numbers (2, 8), torch.int64: the model takes"),
        (torch.full((2, 90), 150), torch.zeros(2, 8), "character 150 lies outside 0 … 149"),
        (torch.zeros(2, 90).long(), filled(2, 8, at=(1, 7), value=np.nan), "the numbers: nan at [1, 7]"),
        (torch.zeros(2, 90).long(), torch.zeros(2, 8).double(), "dtype torch.float64 and the model torch.float32"),
    ],
)
@pytest.mark.parametrize("model", MIXED)
def test_mixed_inputs_that_do_not_fit_are_refused(model, characters, numbers, message):
    with refused(message):
        model(layers=1)(characters, numbers)


@pytest.mark.parametrize("size", [10**15, 10**18])
@pytest.mark.parametrize("model", [PositionalTransformer, StandardTransformer])
def test_a_model_that_no_memory_holds_is_refused_by_its_sizes(model, size):
    said = f'holds [0-9,]+ numbers, which do not fit in memory.*: make it smaller.*"embed_dim":{size},.*"length":8,'
    with pytest.raises(PosattnError, match=said):
        model(length=8, embed_dim=size)
