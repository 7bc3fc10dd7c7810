"""A task of one's own: name, summary, sample and target; everything else has a default."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from posattn import tasks
from posattn.errors import PosattnError
from posattn.tasks import Task


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "REGISTRY", dict(tasks.REGISTRY))


class Sampling(Task):
    """Draws inputs of (3, 2) and asks for their sums along an axis."""

    name = "own"
    summary = "own"

    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 3, 2, generator=generator)
        return x, self.target(x)

    def target(self, inputs: Tensor) -> Tensor:
        return inputs.cumsum(1)


#: The same to derive from, whatever the types of its methods are.
Loosely: Any = Sampling


class Classes(Sampling):
    name = "classes"
    classes = 5

    def target(self, inputs: Tensor) -> Tensor:
        return (inputs.sum(-1).abs() * 2).long() % 5


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("leading", [(), (7,), (2, 3)])
def test_numbers_are_scored_by_mean_squared_error_one_value_for_each_leading_axis(leading: tuple[int, ...]) -> None:
    task: Any = tasks.register(Sampling)()
    target = torch.randn(*leading, 5, 3, 2, generator=seeded(1))
    prediction = torch.randn(*leading, 5, 3, 2, generator=seeded(2))
    loss = task.loss(prediction, target)
    oracle = ((prediction.numpy() - target.numpy()) ** 2).reshape(*leading, -1).mean(-1)
    assert loss.shape == leading
    np.testing.assert_allclose(loss.numpy(), oracle, rtol=1e-5)


def test_numbers_are_right_where_every_one_of_a_sample_is_within_the_tolerance() -> None:
    task: Any = tasks.register(Sampling)()
    target = torch.zeros(4, 3, 2)
    prediction = target.clone()
    prediction[1, 2, 0] = 0.11  # off at one place of one sample
    prediction[2] = 0.09
    assert task.metric(prediction, target).item() == 0.75
    far = target + 100.0
    assert task.metric(torch.stack([far + 10.0, far + 10.2]), torch.stack([far, far])).tolist() == [1.0, 0.0]
    assert task.metric_name == "accuracy"


@pytest.mark.parametrize("leading", [(), (7,), (2, 3)])
def test_classes_are_scored_by_cross_entropy_and_the_share_that_is_right(leading: tuple[int, ...]) -> None:
    task: Any = tasks.register(Classes)()
    target = torch.randint(5, (*leading, 4, 3), generator=seeded(1))
    logits = torch.randn(*leading, 4, 3, 5, generator=seeded(2))
    loss, metric = task.loss(logits, target), task.metric(logits, target)
    pairs = list(zip(logits.reshape(-1, 12, 5), target.reshape(-1, 12), strict=True))
    oracle = torch.stack([F.cross_entropy(one, truth) for one, truth in pairs]).reshape(leading)
    right = np.mean(logits.numpy().argmax(-1) == target.numpy(), axis=(-2, -1))
    assert loss.shape == metric.shape == leading
    torch.testing.assert_close(loss, oracle)
    np.testing.assert_allclose(metric.numpy(), right, rtol=1e-6)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("kind", "prediction", "target", "said"),
    [
        (Sampling, torch.zeros(5, 3, 1), torch.zeros(5, 3, 2), r"\(5, 3, 1\) and the target \(5, 3, 2\)"),
        (Classes, torch.zeros(5, 3), torch.zeros(5, 3).long(), r"one axis more, with a logit for every class"),
        (Sampling, torch.zeros(3, 2), torch.zeros(3, 2), r"of at least 3 axes"),
    ],
)
def test_shapes_that_would_broadcast_are_refused(kind: Any, prediction: Tensor, target: Tensor, said: str) -> None:
    task: Any = tasks.register(kind)()
    for score in (task.loss, task.metric):
        with pytest.raises(PosattnError, match=said):
            score(prediction, target)


def test_the_example_is_a_sample_and_its_target() -> None:
    tasks.register(Classes)
    x, y = tasks.get("classes").sample(1, generator=seeded())
    left, _, right = tasks.get("classes").example().partition(" → ")
    assert [float(word) for word in left.split()] == pytest.approx(x.flatten().tolist(), rel=1e-2)
    assert [int(word) for word in right.split()] == y.flatten().tolist()


def test_a_decorated_class_stays_what_it_was_and_its_fields_are_options() -> None:
    @tasks.register
    class Scaled(Sampling):
        name = "scaled"
        factor: float = 2.0

        def target(self, inputs: Tensor) -> Tensor:
            return self.factor * inputs

    assert isinstance(Scaled, type)
    assert tasks.get("scaled").options == ("factor",)
    assert tasks.get("scaled", factor=3.0).target(torch.ones(1)).item() == 3.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        tasks.get("scaled").factor = 1.0


def test_a_decorated_dataclass_and_a_task_itself_are_registered_as_they_are() -> None:
    @tasks.register
    @dataclasses.dataclass(frozen=True)
    class Given(Sampling):
        name: str = "given"

    other = Given("other")
    assert tasks.register(other) is other
    assert tasks.get("given") == Given()
    assert tasks.get("other") is other


def test_a_sample_that_needs_an_option_says_so_where_the_default_loss_needs_it() -> None:
    @tasks.register
    class Needy(Loosely):
        name = "needy"

        def sample(self, count: int, *, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            x = torch.zeros(count, length)
            return x, x

    with pytest.raises(PosattnError, match=r"task 'needy': sample needs length.*Give length a default, or write loss"):
        tasks.get("needy").loss(torch.zeros(2, 3), torch.zeros(2, 3))


class NoSample(Task):
    name = summary = "none"

    def target(self, inputs: Any) -> Tensor:
        return inputs


class NoTarget(Task):
    name = summary = "none"


class NoName(Loosely):
    @property
    def name(self) -> str:
        raise AttributeError


class NoGenerator(Loosely):
    def sample(self, count: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(count), torch.zeros(count)


class NoDefault(Sampling):
    factor: float


class Listed(Sampling):
    factors: Any = dataclasses.field(default_factory=list)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("task", "said"),
    [
        (NoSample, r"task 'none' has no sample: write sample\(self, count, \*, generator\)"),
        (NoTarget, r"task class NoTarget has no target"),
        (NoName, r"task class NoName has no name"),
        (NoGenerator, r"task 'own': sample\(count.* must take a count and a generator"),
        (NoDefault, r"task class NoDefault: factor has no default. Give it one, or register a task"),
        (Listed, r"task 'own' cannot be told from others \(unhashable type: 'list'\).*use tuples"),
        (dict, r"task is the class dict: pass a task"),
        (3, r"task is an int, 3: pass a task"),
    ],
)
def test_what_is_no_task_is_refused_with_what_it_lacks(task: Any, said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        tasks.register(task)
