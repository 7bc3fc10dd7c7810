"""The GPT-style pair in fleets: the formula's values and gradients, and every replica by itself."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from nn import oracle
from posattn import GPT
from posattn.nn.fast import gpt
from posattn.nn.fast.any_model import mapped

SIZES: dict[str, Any] = {"vocabulary": 7, "length": 11, "embed_dim": 15, "heads": 3, "layers": 2}
BOTH = pytest.mark.parametrize("positional", [False, True])


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(seed))


def plainly(p: dict[str, Tensor], batch: Tensor, *, heads: int, positional: bool, gelu: str) -> Tensor:
    """The formula once more, replica by replica and head by head in torch, for its gradients."""
    answers = []
    for replica in range(batch.shape[0]):
        w = {name: tensor[replica] for name, tensor in p.items()}
        nodes, width = batch.shape[2], w["query_weight"].shape[2] // heads
        allowed = torch.arange(nodes)[:, None] >= torch.arange(nodes)
        token, place = w["token_embedding"][batch[replica]], w["position_embedding"][:nodes]
        state = token if positional else token + place

        def linear(name: str, index: int, x: Tensor, w: dict[str, Tensor] = w) -> Tensor:
            return torch.einsum("...k,kf->...f", x, w[f"{name}_weight"][index]) + w[f"{name}_bias"][index]

        for index in range(len(w["query_weight"])):
            seen = place.expand_as(state) if positional else state
            query, key, value = linear("query", index, seen), linear("key", index, seen), linear("value", index, state)
            read = []
            for head in range(heads):
                own = slice(head * width, (head + 1) * width)
                scores = torch.einsum("bik,bjk->bij", query[..., own], key[..., own]) / math.sqrt(width)
                weights = scores.exp() * allowed
                read.append(torch.einsum("bij,bjk->bik", weights / weights.sum(-1, keepdim=True), value[..., own]))
            state = state + linear("output", index, torch.cat(read, dim=-1))
            hidden = linear("mlp_in", index, state)
            cubic = math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)
            odd = torch.tanh(cubic) if gelu == "tanh" else torch.erf(hidden / math.sqrt(2))
            state = state + linear("mlp_out", index, hidden * (1 + odd) / 2)
        answers.append(torch.einsum("bik,kf->bif", state, w["decoder_weight"]))
    return torch.stack(answers)


@BOTH
@pytest.mark.parametrize("length", [1, 5, 11])
@pytest.mark.parametrize("form", [lambda sizes: partial(gpt.joined, sizes), mapped], ids=["joined", "mapped"])
@pytest.mark.parametrize(("pieces", "gelu"), [(1, "erf"), (3, "erf"), (3, "tanh")])
def test_value_and_every_gradient_are_those_of_the_formula(monkeypatch, positional, length, form, pieces, gelu):
    monkeypatch.setattr(gpt, "pieces_of", lambda rows, whole: pieces)
    models = [oracle.stirred(GPT(**SIZES, positional=positional, gelu=gelu), seed) for seed in range(2)]
    p = oracle.stacked(models)
    names, leaves = list(p), [tensor.requires_grad_() for tensor in p.values()]
    batch = tokens(2, 3, length)
    found = form(models[0].architecture)(p, batch)
    expected = plainly(p, batch, heads=3, positional=positional, gelu=gelu)
    assert oracle.relative_error(found, expected.detach()) < oracle.ROUNDING
    weighing = torch.randn(found.shape, dtype=found.dtype, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad(found, leaves, weighing)
    wanted = torch.autograd.grad(expected, leaves, weighing)
    largest = max(gradient.abs().max() for gradient in wanted)
    for name, gradient, right in zip(names, gradients, wanted, strict=True):
        assert (gradient - right).abs().max() < oracle.ROUNDING * largest, name
    if length == 5:  # places that were not used
        assert gradients[names.index("position_embedding")][:, 5:].abs().sum() == 0


@BOTH
def test_replicas_at_once_equal_each_by_itself(positional):
    models = [oracle.stirred(GPT(**SIZES, positional=positional), seed) for seed in range(3)]
    batch = tokens(3, 5, 11)
    together = gpt.joined(models[0].architecture, oracle.stacked(models), batch)
    for replica, model in enumerate(models):
        assert oracle.relative_error(together[replica], model(batch[replica]).detach()) < oracle.ROUNDING
