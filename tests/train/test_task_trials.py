"""What `posattn train` describes for any registered task."""

from typing import Any

import pytest
import torch
from torch import Tensor

from posattn import studies, tasks
from posattn.errors import PosattnError
from posattn.tasks import Fixed, Task
from posattn.train import Trial, looped_for
from posattn.train.fleet.fleet import Fleet
from posattn.train.numeric_trials import numeric_trials
from posattn.train.task_trials import task_trials


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "REGISTRY", dict(tasks.REGISTRY))


COMMON: dict[str, Any] = {"seeds": 1, "steps": 5, "lr": 1e-3, "precision": "float32"}


def made(task: str, model: str = "positional", **given: Any) -> Any:
    (found,) = task_trials(task, model, **(COMMON | given))
    return found


class Ranged(Task):
    name = "ranged"
    summary = ""

    def sample(
        self, count: int, *, length: int = 4, low: float = 1.0, high: float = 3.0, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        x = low + (high - low) * torch.rand(count, length, 2, generator=generator)
        return x, self.target(x)

    def target(self, inputs: Tensor) -> Tensor:
        return inputs.sum(-1, keepdim=True).expand(-1, -1, 3)


class Plain(Task):
    name = "plain"
    summary = ""
    classes = 5

    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.rand(count, 6, 2, generator=generator)
        return x, self.target(x)

    def target(self, inputs: Tensor) -> Tensor:
        return inputs[..., 0].long()


class Unfit(Task):
    name = "unfit"
    summary = ""

    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return torch.zeros(count, 6), torch.zeros(count)

    def target(self, inputs: Tensor) -> Tensor:
        return inputs[:, 0]


def test_a_numeric_task_is_described_as_before() -> None:
    asked = {"length": 8, "samples": 30_000, "batch": 1000, "scales": (1, 2, 3, 5, 10)}
    (before,) = numeric_trials("sort", "homogeneous", **COMMON, **asked)
    assert made("sort", "homogeneous").id == before.id


def test_a_task_with_a_range_is_tested_beyond_it_with_a_model_of_its_shape() -> None:
    tasks.register(Ranged)
    trial = made("ranged", "standard", scales=(1, 3), length=5)
    assert (trial.model.length, trial.model.in_dim, trial.model.out_dim) == (5, 2, 3)
    assert {one.name: dict(one.options) for one in trial.test_sets} == {
        "c=1": {"length": 5, "low": 1.0, "high": 3.0},
        "c=3": {"length": 5, "low": 3.0, "high": 9.0},
    }
    assert (trial.data.samples, trial.data.batch) == (30_000, 1000)


def test_a_task_without_a_range_has_one_test_set_and_a_logit_per_class() -> None:
    tasks.register(Plain)
    trial = made("plain", samples=50)
    assert [one.name for one in trial.test_sets] == ["test"]
    assert (trial.model.length, trial.model.in_dim, trial.model.out_dim) == (6, 2, 5)
    assert trial.data.batch == 50


def test_fixed_data_is_trained_on_its_train_split_and_tested_on_the_others() -> None:
    x = torch.zeros(12, 4, 1)
    tasks.register(Fixed(x, x, {"train": slice(0, 7), "b": slice(7, 10), "c": slice(10, 12)}, name="mine"))
    trial = made("mine")
    assert (trial.data.samples, trial.data.batch, trial.evaluation.samples) == (7, 7, 2)
    assert {one.name: dict(one.options) for one in trial.test_sets} == {"b": {"split": "b"}, "c": {"split": "c"}}


@pytest.mark.parametrize(
    ("task", "size", "given"),
    [("all-pairs", "nodes", {"low": 0.0, "high": 6.0}), ("edit-distance", "length", {"low": 0.0, "high": 6.0}),
     ("sort", "length", {"low": -6.0, "high": 6.0, "avoid": (-2.0, 2.0)})],
)  # fmt: skip
def test_a_looped_model_suits_its_task_and_is_trained_on_parts_and_tested_on_the_whole(
    task: str, size: str, given: dict[str, Any]
) -> None:
    trial = task_trials(task, "looped", seeds=1, steps=5, precision="float32", length=5, scales=(3,))[0]
    (case, *_) = studies.get("length-scale").cases(task, "paper")
    assert isinstance(case.trial, Trial)
    assert trial.model == case.trial.model
    assert dict(trial.data.options) == {size: 5, "blocks": True}
    assert (trial.data.batch, trial.optimiser.lr) == (128, 1e-2)
    (one,) = trial.test_sets
    assert (one.name, dict(one.options)) == ("c=3", {size: 5, "blocks": False} | given)


@pytest.mark.parametrize("task", looped_for.SUITED)
def test_every_looped_model_can_be_trained_on_its_task(task: str) -> None:
    trial = made(task, "looped", samples=8, batch=4, length=3)
    fleet = Fleet([trial], device="cpu")
    assert [*fleet.run(until=1)] == [1]
    assert bool(fleet.alive.all())


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        ("all-pairs", {}, "task 'all-pairs' is not a list of numbers: use model='looped'"),
        ("median", {"model": "looped"}, "suit task 'median' is not known, as it is for min, max, sort"),
        ("plain", {"length": 3}, "length=3: task 'plain' has no length"),
        ("plain", {"scales": (2,)}, "scale=2: samples of task 'plain' have no low and high"),
        ("unfit", {}, r"task 'unfit' has samples of shape \(6,\), \(\): the models of this command take one input"),
        ("ranged", {"scales": (0,)}, r"scales \(0,\): each must be 1 or more"),
        ("ranged", {"seeds": 0}, "seeds=0"),
        ("mine", {"samples": 8}, "samples=8: split 'train' of task 'mine' has 7 rows"),
        ("khop", {}, "task 'khop' is not a list of numbers"),
    ],
)
def test_what_a_task_does_not_have_is_refused(task: str, given: dict[str, Any], said: str) -> None:
    x = torch.zeros(7, 4, 1)
    for kind in (Ranged, Plain, Unfit, Fixed(x, x, {"train": slice(0, 7)}, name="mine")):
        tasks.register(kind)
    with pytest.raises(PosattnError, match=said):
        made(task, **given)
