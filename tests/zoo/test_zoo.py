"""The models that ship: all there, small, and as good as their tables say."""

from importlib import resources

import pytest
import torch

from posattn import tasks, zoo
from posattn.errors import PosattnError

EVERY = pytest.mark.parametrize(("task", "model"), zoo.names())


def test_every_task_of_the_study_has_its_models():
    tasks_ = ("sum", "min", "median", "sort", "max-subarray")
    assert set(zoo.names()) == {(task, model) for task in tasks_ for model in ("standard", "positional", "homogeneous")}


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
    with pytest.raises(PosattnError, match=r"'looped'.*Known: standard, positional, homogeneous"):
        zoo.load("sort", "looped")
