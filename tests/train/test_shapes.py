"""Which trials are one fleet, and which data a model can be trained on: said before anything is trained."""

import functools
import re
from typing import Any

import pytest

from posattn import PosattnError
from posattn.nn import GPTArchitecture, HopTables, Positional, PositionalTransformer, Standard
from posattn.train import Fleet, shape_key

from .small import score_difference, small_trial

KHOP: dict[str, Any] = {"task": "khop", "data": {"options": {}}, "evaluation": {"sets": {}}}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model": Positional(length=5, embed_dim=8, hidden_dim=7, layers=2)}, "model"),
        ({"model": Standard(length=5, embed_dim=6, hidden_dim=7, layers=2)}, "model"),
        ({"optimiser": {"steps": 21}}, "optimiser"),
        ({"optimiser": {"name": "sgd"}}, "optimiser"),
        ({"data": {"batch": 7}}, "batch"),
        ({"data": {"fresh": True}}, "data"),
        ({"data": {"lengths": (2, 3)}}, "data"),
        ({"data": {"options": {"length": 4}}}, "samples"),
        ({"task": "min-sum", "data": {"options": {"length": 2}}, "evaluation": {"sets": {}}}, "samples"),
        ({"evaluation": {"sets": {"near": {"length": 5}, "far": {"length": 4}}}}, "samples"),
        ({"evaluation": {"sets": {}}}, "samples"),
        ({"evaluation": {"samples": 12}}, "evaluation"),
        ({"evaluation": {"every": 5}}, "evaluation"),
        ({"precision": "float32"}, "precision"),
    ],
)
def test_trials_of_different_shapes_are_no_fleet(fields, named):
    first, other = small_trial(), small_trial(**fields)
    with pytest.raises(PosattnError, match=f"trials {first.id} and {other.id} differ in their {named} "):
        Fleet([first, other], device="cpu")


def test_tasks_of_one_loss_are_one_fleet_and_others_are_not():
    matrices = small_trial(task="shortest-path", model=Positional(length=5, in_dim=5, out_dim=5, embed_dim=6, layers=1))
    losses = [dict(shape_key(trial))["loss"] for trial in (small_trial(), small_trial(task="sort"), matrices)]
    assert losses[0] == losses[1] != losses[2]


def test_a_length_that_is_the_tasks_default_need_not_be_said():
    model = Positional(length=8, embed_dim=6, layers=1)
    trials = [small_trial(model=model, data={"options": options}) for options in ({}, {"length": 8})]
    assert shape_key(trials[0]) == shape_key(trials[1])


def test_the_order_of_test_sets_makes_no_other_fleet():
    sets = {"far": {"length": 5, "high": 9.0}, "near": {"length": 5}}
    first, other = (small_trial(evaluation={"sets": {n: sets[n] for n in names}}) for names in (("near", "far"), sets))
    assert (
        score_difference(Fleet([first, other], device="cpu").scores()[0], Fleet([first], device="cpu").scores()[0])
        < 1e-9
    )


def test_no_trials_are_no_fleet():
    with pytest.raises(PosattnError, match="a fleet needs at least one trial"):
        Fleet([], device="cpu")


LONG = "the input has length 9 and the one-hot encoding of the model 5: shorten it, or build the model with length=9"


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data": {"options": {"lenght": 5}}}, "data: unknown option of the samples of task 'sum' 'lenght': did you"),
        ({"data": {"options": {"length": 9}}}, f"data: {LONG}"),
        ({"data": {"lengths": (2, 9)}}, f"data of length 9: {LONG}"),
        ({"data": {"lengths": (0,)}}, "data of length 0: length=0: an input has at least one number"),
        ({"evaluation": {"sets": {"long": {"length": 9}}}}, f"test set 'long': {LONG}"),
        ({"evaluation": {"sets": {"a": {"hihg": 9}}}}, "test set 'a': unknown option of the samples of task 'sum'"),
        (KHOP, "data: the input has shape (1, 99): the model takes (batch, length, 1)"),
        (KHOP | {"task": "mixed-min"}, "data: task 'mixed-min' gives 2 tensors and the positional model takes 1"),
        (
            KHOP | {"model": GPTArchitecture(vocabulary=15)},
            "data: task 'khop' has 16 classes and the model 15: use vocabulary=16",
        ),
        (
            KHOP | {"model": HopTables(hops=4)},
            "data: task 'khop' has 16 classes and the model 17: choose its letters and hops by the task",
        ),
        (
            {"model": Positional(length=5, out_dim=2)},
            "the model answers with shape (1, 5, 2) where task 'sum' has (1, 5",
        ),
    ],
)
def test_data_that_does_not_fit_the_model_is_refused_before_training(fields, message):
    trial = small_trial(**fields)
    with pytest.raises(PosattnError, match=re.escape(message)) as caught:
        Fleet([trial], device="cpu")
    assert str(caught.value).startswith(f"trial {trial.id}, ")


def test_the_data_of_many_seeds_is_tried_once(monkeypatch):
    counted = []
    original = PositionalTransformer.forward

    @functools.wraps(original)
    def counting(*given: Any, **options: Any) -> Any:
        counted.append(1)
        return original(*given, **options)

    monkeypatch.setattr(PositionalTransformer, "forward", counting)
    model = Positional(length=5, embed_dim=14, layers=1)
    for seed in range(5):
        shape_key(small_trial(model=model, seed=seed))
    assert len(counted) == 2  # once near, as the data are, and once far
