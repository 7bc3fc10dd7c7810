"""The models that ship: all there, small, and as good as their tables say."""

import re
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posattn import studies, tasks, zoo
from posattn.errors import PosattnError
from posattn.tasks.khop import KHopTask

OF_THE_PAPER = [name for name in zoo.names() if name[1] in ("standard", "positional", "homogeneous")]
LOOPED = [name for name in zoo.of_lists() if name[1] == "looped"]
GRAPHS = [name for name in zoo.names() if name[1] == "looped" and name not in LOOPED]
GATED = [name for name in zoo.names() if name[1] == "gated"]
EVERY = pytest.mark.parametrize(("task", "model"), OF_THE_PAPER)


def test_every_task_of_the_study_has_its_models():
    tasks_ = ("sum", "min", "median", "sort", "max-subarray")
    assert set(OF_THE_PAPER) == {
        (task, model) for task in tasks_ for model in ("standard", "positional", "homogeneous")
    }
    assert {task for task, _ in LOOPED} == {"sum", "min", "max", "sort"}
    assert {task for task, _ in GRAPHS} == {"all-pairs", "widest-path"}
    assert {task for task, _ in GATED} == {"mixed-min", "mixed-sum", "mixed-multitask"}
    assert {*OF_THE_PAPER, *LOOPED, *GRAPHS, *GATED, ("khop", "tables")} == set(zoo.names())
    assert set(zoo.of_lists()) == {*OF_THE_PAPER, *LOOPED}


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
        exact = {
            "sum": x.cumsum(1),
            "min": x.cummin(1).values,
            "max": x.cummax(1).values,
            "sort": x.sort(1).values,
        }[task]
        with torch.no_grad():
            assert (found(x) - exact).abs().max() <= 1e-13 * x.abs().sum(1).max()


@pytest.mark.parametrize(("task", "model"), GRAPHS)
def test_looped_models_of_graphs_are_right_to_rounding_at_any_size(task, model):
    """By Floyd and Warshall in NumPy; 25 nodes take 25 or 50 steps, each off by a few roundings of numbers up to 50."""
    nodes, draw = 25, np.random.default_rng(7)
    weights = draw.uniform(0, 2, (nodes, nodes))
    np.fill_diagonal(weights, 0.0 if task == "all-pairs" else 2.0)
    exact = weights.copy()
    for k in range(nodes):
        by_k = exact[:, k, None], exact[k]
        exact = np.minimum(exact, sum(by_k)) if task == "all-pairs" else np.maximum(exact, np.minimum(*by_k))
    with torch.no_grad():
        found = zoo.load(task, model)(torch.from_numpy(weights).reshape(1, -1, 1)).reshape(nodes, nodes).numpy()
    assert np.abs(found - exact).max() <= 50 * 16 * 50 * 2.0**-53
    assert list(zoo.scores(task, model)) == ["6 nodes", "16 nodes", "64 nodes", "64 nodes, sparse", "64 nodes, ring"]


@pytest.mark.parametrize(("task", "model"), GATED)
def test_gated_models_are_as_good_as_their_table_says_for_labels_never_seen(task, model):
    found, table, solved = zoo.load(task, model), zoo.scores(task, model), tasks.get(task)
    for c in (1, 10):
        options = {"low": 0.0, "high": 5.0 * c, "held_out": True}
        x, y = solved.sample(4000, generator=torch.Generator().manual_seed(7), **options)
        with torch.no_grad():
            loss = solved.loss(found(*x), y).item()
        assert table[f"c={c}"] / 3 < loss < 3 * table[f"c={c}"]


def test_hops_are_followed_for_letters_never_seen_and_in_longer_texts():
    """As good as its table says, and no letter is wrong: answers are decided by a wide margin of the logits."""
    found, table = zoo.load("khop", "tables"), zoo.scores("khop", "tables")
    cases: list[tuple[KHopTask, dict[str, Any], str | None]] = [
        (KHopTask(), {}, "validation"),
        (KHopTask(), {"held_out": True}, "held-out letters"),
        (KHopTask(characters=150), {"hops": 3}, None),
    ]
    for task, options, name in cases:
        (tokens,), answers = task.sample(50, generator=torch.Generator().manual_seed(7), **options)
        with torch.no_grad():
            logits = found(tokens)
        assert task.metric(logits, answers) == 1
        if name is not None:
            assert table[name] / 3 < task.loss(logits, answers).item() < 3 * table[name]


@pytest.mark.parametrize(("task", "model"), zoo.names())
def test_every_model_has_a_card_that_says_what_its_table_does_and_whose_command_exists(task, model):
    told = zoo.card(task, model)
    assert f'zoo.load("{task}", "{model}")' in told
    for name, loss in zoo.scores(task, model).items():
        assert f"| {name} | {loss:.2g} |" in told
    assert {"## Training", "## Losses", "## Limits", "## Sizes"} <= set(told.splitlines())
    (command,) = re.findall(r"^\$ posattn (.*)$", told, flags=re.MULTILINE)
    _, study, *options = shlex.split(command)
    given = dict(zip(options[::2], options[1::2], strict=True))
    cases = studies.get(study).cases(given["--task"], given["--preset"])
    (trial,) = [case.trial for case in cases if case.arm == given["--model"]]
    assert trial.architecture == zoo.load(task, model).architecture


def test_the_page_lists_every_model():
    page = (Path(__file__).parents[2] / "docs" / "api" / "zoo.md").read_text(encoding="utf-8")
    for kind in dict.fromkeys(model for _, model in zoo.names()):
        (line,) = [line for line in page.splitlines() if line.startswith("|") and f" {kind} " in line.split("|")[1]]
        assert [f"`{task}`" for task, model in zoo.names() if model == kind] == re.findall(r"`[a-z-]+`", line)


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
    with pytest.raises(
        PosattnError, match=r"'hybrid'.*Known: standard, positional, homogeneous, looped, gated, tables"
    ):
        zoo.load("sort", "hybrid")
    with pytest.raises(PosattnError, match="no looped model of 'median' here: choose one of standard, positional"):
        zoo.load("median", "looped")
