"""The models that ship: all there, small, and as good as their tables say."""

from importlib import resources

import pytest
import torch

from posattn import tasks, zoo
from posattn.errors import PosattnError

LOOPED = [(task, model) for task, model in zoo.names() if model == "looped"]
EVERY = pytest.mark.parametrize(("task", "model"), [name for name in zoo.names() if name not in LOOPED])


def test_every_task_of_the_study_has_its_models():
    tasks_ = ("sum", "min", "median", "sort", "max-subarray")
    of_the_paper = {(task, model) for task in tasks_ for model in ("standard", "positional", "homogeneous")}
    assert set(zoo.names()) == of_the_paper | {(task, "looped") for task in ("sum", "min", "sort")}


@EVERY
def test_a_model_is_as_good_as_its_table_says(task, model):
    """Fresh samples against the table's: both are means over a few thousand, with heavy tails out of range."""
    found, table = zoo.load(task, model), zoo.scores(task, model)
    assert list(table) == ["validation", *(f"c={c}" for c in range(1, 11))]
    generator = torch.Generator().manual_seed(7)
    for c in (1, 10):
        options = {"low": -2.0 * c, "high": 2.0 * c} | ({"avoid": (-2.0, 2.0)} if c > 1 else {})
        x, y = tasks.get(task).sample(4000, length=8, generator=generator, **options)
        with torch.no_grad():
            loss = tasks.get(task).loss(found(x), y).item()
        assert table[f"c={c}"] / 3 < loss < 3 * table[f"c={c}"]


@EVERY
def test_sizes_are_the_papers(task, model):
    count = sum(parameter.numel() for parameter in zoo.load(task, model).parameters())
    biases = 64 + 4 * 4 * 64 + 1  # encoder, four maps in each of four layers, decoder
    assert count == {"positional": 84_577, "homogeneous": 84_577 - biases, "standard": 150_273}[model]


@pytest.mark.parametrize(("task", "model"), LOOPED)
def test_looped_models_are_right_to_rounding_at_any_length_and_scale(task, model):
    """A step is a few operations in float64, and a node's answer comes from at most 55 steps at length 1,000.

    Each step can be off by 16 roundings of its numbers: 55·16·2⁻⁵³ ≈ 1e-13 of the largest number or partial sum.
    """
    found, table = zoo.load(task, model), zoo.scores(task, model)
    assert list(table) == ["validation", *(f"c={c}" for c in range(1, 11))]
    assert max(table.values()) < (8 * 20 * 1e-13) ** 2
    generator = torch.Generator().manual_seed(7)
    for length, c in ((8, 1), (1000, 1), (1000, 1000)):
        x = 2 * c * (2 * torch.rand(4, length, 1, generator=generator, dtype=torch.float64) - 1)
        exact = {"sum": x.cumsum(1), "min": x.cummin(1).values, "sort": x.sort(1).values}[task]
        with torch.no_grad():
            assert (found(x) - exact).abs().max() <= 1e-13 * x.abs().sum(1).max()


@pytest.mark.parametrize("task", ["sum", "min", "median", "sort", "max-subarray"])
def test_homogeneous_models_are_homogeneous_and_the_best_far_out(task):
    found = zoo.load(task, "homogeneous")
    x = torch.randn(100, 8, 1, generator=torch.Generator().manual_seed(1))
    assert torch.equal(found(64 * x), 64 * found(x))  # a power of 2: every rounding is the same, 64 times as large
    assert zoo.scores(task, "homogeneous")["c=10"] < zoo.scores(task, "positional")["c=10"]


def test_all_of_them_take_less_than_eight_megabytes():
    files = list((resources.files("posattn.zoo") / "weights").iterdir())
    assert len(files) == len(zoo.names())
    assert sum(len(file.read_bytes()) for file in files) < 8e6


def test_an_unknown_task_or_model_is_answered_with_what_there_is():
    with pytest.raises(PosattnError, match="did you mean 'sort'"):
        zoo.load("srot", "standard")
    with pytest.raises(PosattnError, match=r"'hybrid'.*Known: standard, positional, homogeneous, looped"):
        zoo.load("sort", "hybrid")
    with pytest.raises(PosattnError, match="no looped model of 'median' here: choose one of standard, positional"):
        zoo.load("median", "looped")
