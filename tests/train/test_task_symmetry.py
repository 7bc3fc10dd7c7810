"""A model with a symmetry that its task does not have is refused before training, with an input that shows it."""

import pytest
import torch

from posattn import PosattnError, studies, tasks
from posattn.nn import Looped
from posattn.train import Data, Evaluation, Optimiser, Trial
from posattn.train.fleet.fleet import Fleet
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
    shown = str(refused.value).split("For the input ")[1].split(" …")[0]
    starts = [" ".join(f"{number:.3g}" for number in row.flatten().tolist()[:8]) for row in x]
    assert shown in starts


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
