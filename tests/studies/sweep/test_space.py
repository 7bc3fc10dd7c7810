"""Fields and their values: how they are written, how many settings they make, and what is refused."""

import itertools
import math
import re

import pytest
import torch

from posattn import PosattnError
from posattn.studies.sweep import Range, Space, parse
from posattn.studies.sweep.search import drawn, searching


def test_a_grid_has_every_combination_once() -> None:
    space = parse(["optimiser.lr=1e-4,1e-3,1e-2", "model.heads=1,2", "optimiser.name=sgd,adam"])
    expected = itertools.product((1, 2), (1e-4, 1e-3, 1e-2), ("sgd", "adam"))
    names = ("model.heads", "optimiser.lr", "optimiser.name")
    assert space.settings() == [dict(zip(names, values, strict=True)) for values in expected]
    assert space.size == 12


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("data.lengths=[8,16],[8]", ((8, 16), (8,))),
        ("optimiser.clip=null,1.5", (None, 1.5)),
        ('model.tag="a,b",c', ("a,b", "c")),
        ("model.bias=true", (True,)),
        ("optimiser.lr=1e-5..1e-2", Range(1e-5, 1e-2)),
        ("model.layers=1..4", Range(1, 4)),
    ],
)
def test_values_are_json_words_or_a_range_and_written_as_they_are_read(text: str, values: object) -> None:
    space = parse([text])
    assert list(space.fields.values()) == [values]
    assert parse(space.words()) == space


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "the grid is empty"),
        (["optimiser.lr"], "write FIELD=VALUE,VALUE"),
        (["optimiser.lr="], "a value is empty"),
        (["optimiser.lr=1e-3,,1e-2"], "a value is empty"),
        (["optimiser.lr=1e-3,1e-3"], "is there twice"),
        (["optimiser.lr=1e-3", "optimiser.lr=1e-2"], "was set before"),
        (["optimiser.lr=1e-2..1e-3"], "its first number must be the lower one"),
        (["optimiser.lr=0.0..1.0"], "drawn by logarithms"),
        (["seed=1,2"], "--seeds N"),
        (["optimiser.lr=[,1"], "is not JSON"),
    ],
)
def test_what_is_no_space_is_refused(given: list[str], said: str) -> None:
    with pytest.raises(PosattnError, match=re.escape(said)):
        parse(given)


def test_a_grid_of_a_range_says_what_to_do() -> None:
    with pytest.raises(PosattnError, match=r"a grid needs listed values.*--search random --budget"):
        parse(["optimiser.lr=1e-5..1e-2"]).settings()


def test_random_settings_are_new_lie_within_the_space_and_follow_from_the_generator() -> None:
    space = parse(["optimiser.lr=1e-5..1e-2", "model.layers=1..3", "optimiser.name=sgd,adam"])
    found = drawn(space, 500, torch.Generator().manual_seed(3))
    assert found == drawn(space, 500, torch.Generator().manual_seed(3))
    assert len({repr(one) for one in found}) == 500
    assert {one["model.layers"] for one in found} == {1, 2, 3}
    rates = [one["optimiser.lr"] for one in found]
    assert min(rates) >= 1e-5
    assert max(rates) < 1e-2
    # Drawn by logarithms, a third lies in each of three decades: 500 draws miss that by 6 deviations at most.
    in_first = sum(rate < 1e-4 for rate in rates)
    assert abs(in_first - 500 / 3) < 6 * math.sqrt(500 * 2 / 9)


def test_a_budget_beyond_the_grid_is_the_grid() -> None:
    space = Space({"optimiser.lr": (1e-3, 1e-2)})
    assert drawn(space, 50, torch.Generator().manual_seed(0)) == space.settings()


@pytest.mark.parametrize("budget", [1, 5, 7, 8, 9, 50])
def test_a_range_of_whole_numbers_has_as_many_settings_as_numbers(budget: int) -> None:
    space = parse(["model.layers=1..4", "optimiser.name=sgd,adam"])
    every = [(layers, name) for layers in (1, 2, 3, 4) for name in ("sgd", "adam")]
    assert space.size == 8
    found = drawn(space, budget, torch.Generator().manual_seed(1))
    tried = [(one["model.layers"], one["optimiser.name"]) for one in found]
    assert len(set(tried)) == len(tried) == min(budget, 8)
    assert set(tried) <= set(every)
    search = searching("optuna", space, budget=budget, batch=50)()
    assert len({repr(one) for one in search.ask()}) == min(budget, 8)
    assert search.ask() == []


@pytest.mark.parametrize(
    ("search", "budget", "batch", "said"),
    [
        ("gird", None, None, "did you mean 'grid'?"),
        ("grid", 3, None, "a grid tries everything"),
        ("random", None, None, "needs a budget"),
        ("random", 0, None, "budget=0"),
        ("optuna", 0, None, "budget=0"),
        ("grid", None, 0, "batch=0"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(search: str, budget: int, batch: int, said: str) -> None:
    with pytest.raises(PosattnError, match=re.escape(said)):
        searching(search, parse(["optimiser.lr=1e-3,1e-2"]), budget=budget, batch=batch)


def test_optuna_is_asked_in_batches_up_to_the_budget_and_comes_closer_to_what_it_is_told() -> None:
    search = searching("optuna", parse(["optimiser.lr=1e-6..1.0"]), budget=48, batch=8)()
    rates: list[float] = []
    while batch := search.ask():
        assert len(batch) == 8
        found = [one["optimiser.lr"] for one in batch]
        search.tell([abs(math.log10(rate) + 3) for rate in found])  # best at 1e-3
        rates += found
    assert len(rates) == 48
    near = [abs(math.log10(rate) + 3) < 0.5 for rate in rates]  # a sixth of the range
    assert sum(near[24:]) > sum(near[:24])


def test_optuna_does_not_repeat_itself_among_few_settings() -> None:
    search = searching("optuna", parse(["model.heads=1,2,4", "optimiser.lr=1e-3,1e-2"]), budget=6, batch=2)()
    asked = []
    while batch := search.ask():
        asked += batch
        search.tell([float(one["model.heads"]) for one in batch])
    assert len({repr(one) for one in asked}) == 6


def test_optuna_that_is_not_installed_is_said_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(PosattnError, match=re.escape("pip install 'posattn[sweep]'")):
        searching("optuna", parse(["optimiser.lr=1e-3,1e-2"]), budget=3, batch=None)
