"""The one-layer selector against its formula written out with whole matrices."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError
from posattn.nn import Selector, SelectorTransformer
from posattn.train import Data, Evaluation, Fleet, Optimiser, Trial
from train.small import SHARP, SUMMANDS, shaken

from . import splitmix64

TASK = tasks.get("selection")
PLACES = torch.arange(11).unsqueeze(0)
SIZES: dict[str, Any] = {"length": 11, "dim": 3, "deviation": 0.7}
CHOICES: list[dict[str, Any]] = [
    {"encoding": "one-hot"},
    {"encoding": "one-hot", "keys": "with-query", "query_scale": 0.3},
    {"encoding": "one-hot", "query": "sum"},
    {"encoding": "near-orthogonal", "encoding_dim": 17},
    {"encoding": "near-orthogonal", "encoding_dim": 17, "query": "sum", "keys": "with-query", "query_scale": 0.2},
    {"encoding": "stochastic", "encoding_dim": 70},
    {"encoding": "stochastic", "encoding_dim": 13, "query": "sum"},
    {"encoding": "stochastic", "encoding_dim": 13, "keys": "with-query", "query_scale": 0.25},
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def samples(count: int = 5, **options: Any) -> tuple[Any, Tensor]:
    wanted = {"length": 11, "dim": 3, "subset_size": 2} | options
    return TASK.sample(count, **wanted, generator=seeded(1), dtype=torch.float64)


def model(*, seed: int = 2, **options: Any) -> SelectorTransformer:
    return SelectorTransformer(**(SIZES | options), generator=seeded(seed)).double()


def codes_of(selector: SelectorTransformer, tokens: int, key: int) -> np.ndarray:
    """Every token's encoding as a column."""
    sizes = selector.architecture
    if sizes.encoding == "one-hot":
        return np.eye(sizes.width)[:, :tokens]
    if sizes.encoding == "near-orthogonal":
        return selector.get_buffer("encoding").numpy()[:tokens].T
    return splitmix64.signs(key, tokens, sizes.width).T / math.sqrt(sizes.width)


def by_hand(selector: SelectorTransformer, x: np.ndarray, subset: list[int], key: int) -> np.ndarray:
    """V·Z·softmax(Zᵀ·W·z_query) with the whole of W, whose first d columns meet x_query = 0."""
    sizes = selector.architecture
    e = codes_of(selector, len(x), key)
    chosen = e[:, subset]
    query = chosen.sum(1) if sizes.query == "sum" else chosen @ np.linalg.inv(chosen.T @ chosen) @ np.ones(len(subset))
    z_query = np.concatenate([np.zeros(sizes.dim), sizes.query_scale * query])
    z = np.concatenate([x.T, e])
    if sizes.keys == "with-query":
        z = np.concatenate([z, z_query[:, None]], axis=1)
    never_used = np.random.default_rng(0).normal(size=(sizes.dim + sizes.width, sizes.dim))
    w = np.concatenate([never_used, selector.get_parameter("key_query").detach().numpy()], axis=1)
    logits = z.T @ w @ z_query
    weights = np.exp(logits - logits.max())
    return selector.get_parameter("value").detach().numpy() @ z @ (weights / weights.sum())


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_the_selector_is_its_formula(options: dict[str, Any]) -> None:
    selector = model(**options)
    (x, subset, key), _ = samples()
    found = selector(x, subset, key).detach().numpy()
    for row in range(5):
        wanted = by_hand(selector, x[row].numpy(), subset[row].tolist(), int(key[row]))
        np.testing.assert_allclose(found[row], wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", CHOICES, ids=str)
def test_fewer_tokens_and_other_subsets_than_in_training_work(options: dict[str, Any]) -> None:
    selector = model(**options)
    (x, subset, key), _ = samples(length=6, subset_size=4)
    wanted = by_hand(selector, x[0].numpy(), subset[0].tolist(), int(key[0]))
    np.testing.assert_allclose(selector(x, subset, key)[0].detach().numpy(), wanted, rtol=1e-9, atol=1e-12)


def test_stochastic_encodings_have_no_longest_length() -> None:
    selector = model(encoding="stochastic", encoding_dim=13)
    (x, subset, key), _ = samples(length=40)
    wanted = by_hand(selector, x[0].numpy(), subset[0].tolist(), int(key[0]))
    np.testing.assert_allclose(selector(x, subset, key)[0].detach().numpy(), wanted, rtol=1e-10, atol=1e-12)


def test_a_certificate_meets_every_chosen_encoding_with_one() -> None:
    selector = model(encoding="stochastic", encoding_dim=30)
    key = torch.tensor([5])
    chosen, every = (selector.encodings(places, key, torch.float64) for places in (torch.tensor([[1, 4, 9]]), PLACES))
    products = (every @ selector.e_query(chosen).unsqueeze(-1)).flatten()
    assert products[[1, 4, 9]].tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_weights_start_at_zero_unless_told_otherwise_and_count_only_what_is_used() -> None:
    selector = SelectorTransformer()
    assert {name: tuple(p.shape) for name, p in selector.named_parameters()} == {
        "key_query": (175, 170),
        "value": (5, 175),
    }
    assert all(not parameter.any() for parameter in selector.parameters())
    assert SelectorTransformer(deviation=0.1, generator=seeded()).get_parameter("value").std() > 0.05


def test_cosines_are_with_the_ground_truth() -> None:
    selector = model(encoding="stochastic", encoding_dim=4)
    found = selector.architecture.measures(selector.replica())
    w, v = (selector.get_parameter(name).detach().numpy() for name in ("key_query", "value"))
    truth_w, truth_v = np.eye(7, 4, -3), np.eye(3, 7)
    assert found["cosine W"].item() == pytest.approx((w * truth_w).sum() / np.linalg.norm(w) / np.linalg.norm(truth_w))
    assert found["cosine V"].item() == pytest.approx((v * truth_v).sum() / np.linalg.norm(v) / np.linalg.norm(truth_v))
    zero = SelectorTransformer()
    assert {value.item() for value in zero.architecture.measures(zero.replica()).values()} == {0.0}
    for name, block in (("W tokens", w[:3]), ("W positions", w[3:]), ("V tokens", v[:, :3]), ("V positions", v[:, 3:])):
        assert found[f"norm {name}"].item() == pytest.approx(np.sqrt((block**2).mean()))


@pytest.mark.parametrize("encoding", ["one-hot", "near-orthogonal", "stochastic"])
def test_without_the_blocks_that_stay_zero_it_is_the_model_where_they_are_zero(encoding: str) -> None:
    part = model(encoding=encoding, blocks="surviving")
    whole = model(encoding=encoding)
    if encoding == "near-orthogonal":
        whole.get_buffer("encoding").copy_(part.get_buffer("encoding"))
    with torch.no_grad():
        for name in ("key_query", "value"):
            whole.get_parameter(name).zero_()
        whole.get_parameter("key_query")[3:] = part.get_parameter("key_query")
        whole.get_parameter("value")[:, :3] = part.get_parameter("value")
    inputs, _ = samples()
    torch.testing.assert_close(part(*inputs), whole(*inputs), rtol=1e-12, atol=1e-12)
    assert part.get_parameter("value").shape == (3, 3)


def test_the_ground_truth_selects() -> None:
    for options in CHOICES[:1] + CHOICES[3:4] + CHOICES[5:6]:
        selector = model(**options)
        sizes = selector.architecture
        with torch.no_grad():
            selector.get_parameter("key_query").copy_(60 * torch.eye(3 + sizes.width, sizes.width).roll(3, 0))
            selector.get_parameter("value").copy_(torch.eye(3, 3 + sizes.width))
        (x, subset, key), y = samples()
        loss = TASK.loss(selector(x, subset, key), y).item()
        assert loss < (1e-3 if options["encoding"] != "near-orthogonal" else 1.0)


BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"encoding": "sinusoidal"}, ["sinusoidal", "Known: one-hot, near-orthogonal, stochastic"]),
    ({"keys": "tokes"}, ["did you mean 'tokens'"]),
    ({"query": "dual"}, ["dual"]),
    ({"encoding": "one-hot", "encoding_dim": 5}, ["encoding_dim=5", "Leave encoding_dim out"]),
    ({"query_scale": 0.0}, ["query_scale=0.0", "above 0"]),
    ({"query_scale": 1e308}, ["query_scale=1e+308", "at most 3.4e+38", "float32"]),
    ({"query_scale": math.inf}, ["query_scale=inf", "finite"]),
    ({"query_scale": "1"}, ["query_scale='1'", "number"]),
    ({"encoding": "near-orthogonal", "length": 10, "encoding_dim": 4}, ["encoding_dim=4", "Use encoding_dim=5"]),
    ({"deviation": -1.0}, ["deviation=-1.0"]),
    ({"dim": 0}, ["dim=0"]),
]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("options", "words"), BAD, ids=str)
def test_a_bad_choice_is_one_clear_error(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(PosattnError) as caught:
        SelectorTransformer(**options)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.usefixtures("as_users_run_it")
def test_inputs_that_do_not_fit_are_one_clear_error() -> None:
    (x, subset, key), _ = samples()
    for options, inputs, words in [
        ({"encoding": "one-hot"}, samples(length=12)[0], ["12 tokens", "one-hot encodings exist for 11"]),
        (
            {"encoding": "near-orthogonal", "encoding_dim": 17},
            samples(length=12)[0],
            ["near-orthogonal", "exist for 11"],
        ),
        ({"encoding": "stochastic", "encoding_dim": 2}, samples(subset_size=3)[0], ["q=3", "full rank", "query='sum'"]),
        ({}, (x[:, :, :2], subset, key), ["(batch, tokens, 3)"]),
        ({}, (x, subset + 10, key), ["outside 0 … 10"]),
        ({}, (x, subset.repeat(1, 6), key), ["q=12 of 11 tokens"]),
        ({}, (x, subset, key[:2]), ["key is (2,)"]),
        ({"encoding": "one-hot"}, (x, subset[:, :1].repeat(1, 2), key), ["of sample 0 names a place twice"]),
    ]:
        with pytest.raises(PosattnError) as caught:
            model(**options)(*inputs)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_encodings_that_chance_made_dependent_are_one_clear_error() -> None:
    selector = model(encoding="near-orthogonal", encoding_dim=7)
    selector.get_buffer("encoding")[5] = -selector.get_buffer("encoding")[2]
    (x, _, key), _ = samples()
    fine = torch.tensor([[0, 1]] * 5)
    selector(x, fine, key)
    fine[3] = torch.tensor([2, 5])
    with pytest.raises(PosattnError, match=r"subset \[2, 5\] of sample 3 are linearly dependent at encoding_dim=7"):
        selector(x, fine, key)


@pytest.mark.parametrize("seed", range(20))
def test_no_two_fixed_encodings_are_the_same_up_to_the_sign(seed: int) -> None:
    held = Selector(length=16, encoding="near-orthogonal", encoding_dim=5).init(seeded(seed))["encoding"]
    products = (held @ held.T).abs()
    assert (products - torch.eye(16)).max() < 0.99  # all 16 directions that there are
    assert held.abs().unique().tolist() == pytest.approx([5**-0.5])


def trial_of(**options: Any) -> Trial:
    sizes = {"length": 10, "dim": 2, "subset_size": 3}
    return Trial(
        task="selection",
        model=Selector(length=10, dim=2, **options),
        data=Data(samples=64, batch=8, fresh=True, options=sizes),
        optimiser=Optimiser(name="sgd", lr=1.0, steps=20),
        evaluation=Evaluation(samples=8, sets={"same": sizes}),
    )


@pytest.mark.parametrize("width", [3, 6, 8, 13])
def test_stochastic_encodings_that_will_be_dependent_are_refused_before_training(width: int) -> None:
    """160 samples of three tokens: 6·2^-width of them have two that are the same up to the sign."""
    with pytest.raises(PosattnError, match=r"encoding_dim=\d+|linearly dependent"):
        Fleet([trial_of(encoding="stochastic", encoding_dim=width)], device="cpu")
    for fine in ({"encoding_dim": 15}, {"encoding_dim": width, "query": "sum"}):
        Fleet([trial_of(encoding="stochastic", **fine)], device="cpu")


def test_a_test_set_cannot_have_the_name_of_a_figure_of_the_weights() -> None:
    base = trial_of(encoding="one-hot")
    sets = {"cosine W": base.test_sets[0].options}
    with pytest.raises(PosattnError, match="'cosine W', which is a figure of the weights: rename it"):
        Fleet([dataclasses.replace(base, evaluation=dataclasses.replace(base.evaluation, sets=sets))], device="cpu")


def test_a_fleet_of_selectors_trains_each_as_if_alone_and_watches_the_cosines() -> None:
    trials = [
        Trial(
            task="selection",
            model=Selector(length=12, dim=2, encoding="stochastic", encoding_dim=24),
            data=Data(samples=32, batch=32, fresh=True, options={"length": 12, "dim": 2, "subset_size": 2}),
            optimiser=Optimiser(name="sgd", lr=1.0, steps=30),
            evaluation=Evaluation(samples=16, sets={"longer": {"length": 20, "dim": 2, "subset_size": 2}}),
            precision="float64",
            seed=seed,
        )
        for seed in range(3)
    ]
    together, alone = Fleet(trials, device="cpu"), Fleet(trials[1:2], device="cpu")
    for fleet in (together, alone):
        list(fleet.run())
    scores = together.scores()
    assert set(scores[1]) == {"train", "longer", *trials[0].model.measures(together.parameters.chunks[0])}
    moved = shaken(trials).scores()[1]
    for name, score in alone.scores()[0].items():
        apart = abs(scores[1][name].loss - moved[name].loss)
        assert abs(scores[1][name].loss - score.loss) <= SUMMANDS * (apart + 2**-52) < SHARP
    assert all(0.1 < found["cosine V"].loss <= 1 for found in scores)
