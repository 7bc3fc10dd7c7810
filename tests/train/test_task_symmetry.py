"""A model with a symmetry that its task does not have is refused before training, with an input that shows it."""

from dataclasses import replace

import pytest
import torch

from posattn import PosattnError, studies, tasks
from posattn.nn import Action, Looped, Positional
from posattn.train import Data, Evaluation, Optimiser, Trial
from posattn.train.fleet.fleet import Fleet
from posattn.train.fleet.grouping import shape_key
from posattn.train.task_symmetry import check_symmetry


def sample(task: str, **options):
    return tasks.get(task).sample(8, **options, generator=torch.Generator().manual_seed(0))[0]


@pytest.mark.parametrize(
    ("task", "model", "said"),
    [
        ("sum", Looped(schedule="scan", symmetry=("scale", "shift")), r"f\(x \+ 5\) = f\(x\) \+ 5 is off by"),
        ("min", Looped(schedule="scan", symmetry=("scale", "linear")), r"f\(x \+ y\) = f\(x\) \+ f\(y\) is off by"),
        ("max-subarray", Looped(schedule="scan", symmetry=("shift",)), "Leave 'shift' out"),
    ],
)
def test_what_the_answers_do_not_have_is_refused_with_an_input_that_shows_it(task, model, said):
    x = sample(task)
    with pytest.raises(PosattnError, match=said) as refused:
        check_symmetry(model, tasks.get(task), x)
    shown = str(refused.value).split("For the input ")[1].split(", ")[0]
    rows = [[f"{number:.3g}" for number in row.flatten().tolist()] for row in x]
    assert shown in [" ".join(row[:8]) + (" …" if len(row) > 8 else "") for row in rows]


def own(*rows):
    return ("scale", Action(rows))


@pytest.mark.parametrize(
    ("task", "schedule", "symmetry"),
    [
        ("min", "scan", own((1,), (0,), (1,))),  # self alone moves
        ("sum", "scan", own((1,), (1,), (1,))),  # the sum moves by 2
        ("sort", "bitonic", own((1,), (2,), (1,))),
        ("all-pairs", "pairs", own((1,), (1,), (1,), (1,))),  # a path of two edges moves by 2
        ("widest-path", "pairs", ("scale", "potential")),  # shows on graphs of three nodes
        ("widest-path", "pairs", own((1, 0), (1, 1), (1, -1), (1, 0))),
    ],
)
def test_an_action_that_the_step_does_not_have_is_refused_with_numbers_that_show_it(task, schedule, symmetry):
    model = Looped(schedule=schedule, symmetry=symmetry)
    with pytest.raises(PosattnError, match=f"the step of task '{task}' does not have it") as refused:
        check_symmetry(model, tasks.get(task), sample(task))
    said = str(refused.value)
    before, after = said.split(" = ")[1].split(" its answer")[0].split(" to ")
    before, after = ([float(number) for number in numbers.split(", ")] for numbers in (before, after))
    wanted, found = (
        float(said.split(words)[1].split(mark)[0]) for words, mark in ((" move by ", ","), ("moves by ", ". "))
    )
    step = {
        "min": min,
        "sum": lambda own, other: own + other,
        "all-pairs": lambda direct, to, by: min(direct, to + by),
        "widest-path": lambda direct, to, by: max(direct, min(to, by)),
    }
    computed = (
        [step[task](*after) - step[task](*before)]
        if task in step
        else [role(after) - role(before) for role in (min, max)]
    )
    assert min(abs(one - found) for one in computed) < 0.02  # numbers are shown with three digits
    assert abs(wanted - found) > 0.02


@pytest.mark.parametrize(
    ("task", "schedule", "symmetry"),
    [
        ("sum", "scan", own((1,), (0,), (1,))),  # larger than any shift of the whole list
        ("sum", "scan", own((1,), (-1,), (0,))),
        ("min", "scan", own((1,), (1,), (1,))),
        ("sort", "bitonic", own((1,), (1,), (1,))),
        ("all-pairs", "pairs", own((1, 0), (1, -1), (0, 1), (1, 0))),
        ("widest-path", "pairs", own((1,), (1,), (1,), (1,))),
        ("reachability", "pairs", ("scale", "shift")),
        ("edit-distance", "grid", ("scale", "potential")),
        ("warping", "grid", ("scale", "potential")),
    ],
)
def test_an_action_that_the_step_has_passes_though_it_may_be_larger_than_the_tasks(task, schedule, symmetry):
    check_symmetry(Looped(schedule=schedule, symmetry=symmetry), tasks.get(task), sample(task))


def test_a_table_whose_answers_do_not_move_with_a_potential_is_refused():
    class Largest(type(tasks.get("warping"))):
        def target(self, inputs):
            return inputs.amax(-1, keepdim=True).cumsum(1)

    made = Largest(name="largest", summary="", gaps=False)
    with pytest.raises(PosattnError, match=r"task 'largest' do not have it.* u_ij = 1 \+ i² − 2j, is off by"):
        check_symmetry(Looped(schedule="grid", symmetry=("scale", "potential")), made, sample("warping"))


def test_an_action_is_not_asked_about_inputs_that_a_users_task_cannot_answer():
    class Eight:
        name = "eight"

        def target(self, inputs):
            if inputs.shape[1] != 8:
                raise ValueError("eight numbers, please")
            return inputs.cummin(1).values

    check_symmetry(Looped(symmetry=own((1,), (0,), (1,))), Eight(), sample("min"))


def test_all_that_the_study_trains_passes():
    study = studies.get("length-scale")
    trials = [case.trial for task in study.tasks for case in study.cases(task, "smoke")]
    looped = [(trial.task, trial.model) for trial in trials if isinstance(trial, Trial)]
    checked = [(task, model) for task, model in looped if isinstance(model, Looped)]
    assert len(checked) == 36
    for task, model in checked:
        check_symmetry(model, tasks.get(task), sample(task))


def test_a_fleet_refuses_before_it_trains():
    trial = Trial(
        task="sum",
        model=Looped(schedule="scan", symmetry=("scale", "shift")),
        data=Data(samples=8, batch=4, options={"length": 4, "blocks": True}),
        optimiser=Optimiser(steps=1),
        evaluation=Evaluation(samples=2, sets={"near": {"blocks": False}}),
    )
    with pytest.raises(PosattnError, match="the answers of task 'sum' do not have it"):
        Fleet([trial], device="cpu")


def test_a_positional_model_that_shifts_is_refused_a_sum():
    model, data = Positional(symmetry=("scale", "shift"), layers=1), Data(samples=4, batch=2)
    trial = Trial(task="sum", model=model, data=data, optimiser=Optimiser(steps=1))
    with pytest.raises(
        PosattnError, match=r"symmetry='shift': the answers of task 'sum' do not have it.*Leave 'shift'"
    ):
        shape_key(trial)
    shape_key(replace(trial, task="min"))
    shape_key(replace(trial, model=Positional(symmetry="scale", layers=1)))


def test_sums_that_are_no_inputs_cannot_be_linear():
    model = Looped(schedule="pairs", symmetry=("scale", "linear"))
    with pytest.raises(PosattnError, match="the sum of two inputs of task 'reachability' is no input of it"):
        check_symmetry(model, tasks.get("reachability"), sample("reachability"))


@pytest.mark.parametrize(
    ("data", "sets", "said"),
    [
        ({"length": 1, "blocks": True}, {"length": 4}, "takes no step there, so nothing is learned"),
        ({"length": 8}, {"length": 8}, "'blocks': True in training and False in test sets"),
    ],
)
def test_what_a_looped_model_cannot_be_trained_on_is_refused(data, sets, said):
    trial = Trial(
        task="min",
        model=Looped(schedule="scan", symmetry=("scale", "shift")),
        data=Data(samples=8, batch=4, options=data),
        optimiser=Optimiser(steps=1),
        evaluation=Evaluation(samples=2, sets={"near": {**sets, "blocks": False}}),
    )
    with pytest.raises(PosattnError, match=said):
        Fleet([trial], device="cpu")
