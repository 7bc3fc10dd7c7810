"""What a user's task draws and scores is checked before training; fixed data trains, and its content is in the id."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from posattn import engine, tasks
from posattn.errors import PosattnError
from posattn.nn import Positional
from posattn.tasks import Fixed, NumericTask, Task
from posattn.train import Data, Evaluation, Fleet, Optimiser, Trial

HERE = __file__


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "REGISTRY", dict(tasks.REGISTRY))


def trial(task: str, **fields: Any) -> Trial:
    given: dict[str, Any] = {
        "model": Positional(length=3, embed_dim=4, hidden_dim=4, layers=1),
        "data": Data(samples=6, batch=3),
        "optimiser": Optimiser(steps=2),
        "evaluation": Evaluation(samples=2, sets={"test": {}}),
    }
    return Trial(task=task, **(given | fields))


class Mine(Task):
    """Right in all respects."""

    name = "mine"
    summary = "mine"

    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Any, Any]:
        x = torch.randn(count, 3, 1, generator=generator)
        return x, self.target(x)

    def target(self, inputs: Any) -> Tensor:
        return inputs * 2


def line_of(text: str) -> int:
    """The line of this file that ends in a mark."""
    (found,) = [at for at, line in enumerate(Path(HERE).read_text().splitlines(), 1) if line.endswith(f"# {text}")]
    return found


def refused(kind: type[Task], **fields: Any) -> PosattnError:
    tasks.register(kind)
    with pytest.raises(PosattnError) as caught:
        Fleet([trial("mine", **fields)], device="cpu")
    return caught.value


def test_a_task_of_four_names_trains_and_each_replica_as_alone() -> None:
    tasks.register(Mine)
    trials = [trial("mine", seed=seed) for seed in range(2)]
    fleet = Fleet(trials, device="cpu")
    assert list(fleet.run()) == [1, 2]
    together = fleet.scores()
    for one, scores in zip(trials, together, strict=True):
        alone = Fleet([one], device="cpu")
        list(alone.run())
        assert alone.scores()[0]["test"].loss == pytest.approx(scores["test"].loss, rel=1e-4)


class FailsInTarget(Mine):
    def target(self, inputs: Any) -> Tensor:
        return inputs @ torch.ones(5)  # fails here


class FailsInSample(Mine):
    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Any, Any]:
        return {}["x"], self  # has no x


class FailsInLoss(Mine):
    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        raise ZeroDivisionError("no loss")  # raised by a loss


@pytest.mark.parametrize(
    ("kind", "said", "mark"),
    [
        (FailsInTarget, "task 'mine': sample failed: RuntimeError: ", "fails here"),
        (FailsInSample, "task 'mine': sample failed: KeyError: 'x' ", "has no x"),
        (FailsInLoss, "task 'mine': loss failed: ZeroDivisionError: no loss ", "raised by a loss"),
    ],
)
def test_an_exception_in_a_users_task_is_one_error_with_its_line(kind: Any, said: str, mark: str) -> None:
    error = refused(kind)
    assert said in str(error)
    assert f"({HERE}, line {line_of(mark)}). Mend that line." in str(error)
    assert str(error).startswith("trial ")
    assert "\n" not in str(error)


class OneNumber(Mine):
    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:  # one number
        return (prediction - target).square().mean()


class OneMetric(Mine):
    def metric(self, prediction: Tensor, target: Tensor) -> Tensor:  # one metric
        return (prediction - target).abs().amax(dim=(-2, -1))


def test_a_loss_of_one_number_for_all_replicas_is_refused_with_shapes() -> None:
    said = str(refused(OneNumber))
    assert f"task 'mine': loss ({HERE}, line {line_of('one number')}) gives () for predictions of 2 replicas" in said
    assert "(2, 1, 3, 1), and targets (2, 1, 3, 1)" in said
    assert ".mean(dim=(-3, -2, -1))" in said


def test_a_metric_for_each_sample_is_refused_too() -> None:
    said = str(refused(OneMetric))
    assert f"metric ({HERE}, line {line_of('one metric')}) gives (2, 1)" in said


class NanInput(Mine):
    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Any, Any]:  # draws NaN
        x = torch.full((count, 3, 1), float("nan"))
        return x, x


class InfiniteTarget(Mine):
    def target(self, inputs: Any) -> Tensor:  # infinite
        return inputs / 0


@pytest.mark.parametrize(
    ("kind", "said", "mark"),
    [
        (NanInput, "task 'mine': the inputs hold nan at [0, 0, 0]", "draws NaN"),
        (InfiniteTarget, "task 'mine': the targets hold ", "infinite"),
    ],
)
def test_data_with_nan_is_refused_before_training_with_the_line_that_made_it(kind: Any, said: str, mark: str) -> None:
    error = str(refused(kind))
    assert said in error
    assert f"({HERE}, line {line_of(mark)})" in error


def logarithm(x: Tensor) -> Tensor:  # of negative numbers
    return x.log()


def test_a_function_of_numbers_that_gives_nan_is_named() -> None:
    tasks.register(NumericTask(name="mine", summary="", function=logarithm))
    with pytest.raises(PosattnError, match=r"targets hold nan") as caught:
        Fleet([trial("mine", data=Data(samples=6, batch=3, options={"length": 3}))], device="cpu")
    assert f"({HERE}, line {line_of('of negative numbers')})" in str(caught.value)


class RareNan(Mine):
    """NaN in the last of six samples, which one sample alone does not show."""

    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Any, Any]:
        x = torch.zeros(count, 3, 1)
        x[5:] = float("nan")
        return x, x


def test_nan_is_found_among_all_training_samples() -> None:
    assert "the inputs hold nan at [5, 0, 0]" in str(refused(RareNan))


class Classified(Mine):
    def target(self, inputs: Any) -> Tensor:
        return (inputs[..., 0] > 0).long()


class TwoClasses(Classified):
    classes = 2


class OneClass(Classified):
    classes = 1


class Pairless(Mine):
    def sample(self, count: int, *, generator: torch.Generator) -> Any:
        return torch.zeros(count, 3, 1)


class Listed(Mine):
    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Any, Any]:
        return [[1.0]], torch.zeros(count, 1)


class FiveAlways(Mine):
    def sample(self, count: int, *, generator: torch.Generator) -> tuple[Any, Any]:
        return torch.zeros(5, 3, 1), torch.zeros(5, 3, 1)


class Narrow(Mine):
    def target(self, inputs: Any) -> Tensor:
        return inputs[:, 0]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Classified, "has targets of torch.int64, which are classes: say how many there are, as classes = 3"),
        (OneClass, "task 'mine' has a target of class 1, and classes=1: classes count from 0 to 0"),
        (TwoClasses, "task 'mine' has 2 classes and the model 1: use out_dim=2"),
        (Pairless, "gave a Tensor: return inputs and targets, as (x, self.target(x))"),
        (Listed, "gave a list as input: return tensors"),
        (FiveAlways, "gave inputs of shape (5, 3, 1) where 1 samples were asked for"),
        (Narrow, "the model answers with shape (1, 3, 1) where task 'mine' has (1, 1)"),
    ],
)
def test_samples_that_are_not_what_was_asked_for_are_refused(kind: Any, said: str) -> None:
    assert said in str(refused(kind))


def test_classes_train_with_a_logit_for_each() -> None:
    tasks.register(TwoClasses)
    model = Positional(length=3, embed_dim=4, hidden_dim=4, layers=1, out_dim=2)
    fleet = Fleet([trial("mine", model=model)], device="cpu")
    list(fleet.run())
    score = fleet.scores()[0]["test"]
    assert 0 < score.loss < 5
    assert 0 <= score.metric <= 1


# ---- fixed data

X = torch.arange(24.0).reshape(8, 3, 1) / 24


def fixed(x: Tensor = X) -> Fixed:
    return Fixed(x, x * 2, {"train": slice(0, 6), "test": [6, 7]}, name="mine")


FIXED_FIELDS = {"evaluation": Evaluation(samples=2, sets={"test": {"split": "test"}})}


def test_a_trial_on_fixed_data_has_its_content_in_its_id_and_its_json() -> None:
    task = tasks.register(fixed())
    one = trial("mine", **FIXED_FIELDS)
    assert one.task_options == {"content": task.content}
    assert Trial.from_json(one.to_json()) == one
    assert trial("mine", task_options={"content": task.content}, **FIXED_FIELDS).id == one.id
    tasks.register(fixed(X + 1))
    assert trial("mine", **FIXED_FIELDS).id != one.id
    with pytest.raises(PosattnError, match="the data of task 'mine' has changed"):
        Trial.from_json(one.to_json())


def test_a_task_without_such_options_keeps_those_of_a_trial() -> None:
    assert trial("sum").task_options == {}


def test_fixed_data_trains_resumes_and_is_listed_after_it_has_changed(tmp_path: Path) -> None:
    tasks.register(fixed())
    one = trial("mine", **FIXED_FIELDS)
    silent = engine.Lines()
    store = engine.run([one], out=tmp_path, device="cpu", reporter=silent)
    assert store.finished(one)
    assert not store.outdated(one)
    assert one.task_source is None
    before = (store.path(one) / "metrics.json").stat().st_mtime_ns
    engine.run([one], out=tmp_path, device="cpu", reporter=silent)
    assert (store.path(one) / "metrics.json").stat().st_mtime_ns == before
    tasks.register(fixed(X + 1))
    assert [held.trial for held in engine.listing(store)] == [one.id]
    assert set(engine.frame(tmp_path)["task_options.content"]) == {one.task_options["content"]}


def test_a_fleet_holds_the_rows_of_the_splits() -> None:
    tasks.register(fixed())
    fleet = Fleet([trial("mine", **FIXED_FIELDS)], device="cpu")
    assert torch.equal(fleet.data.parts[0].tensors[0][0], X[:6])
    (_, (inputs, target)), *_ = fleet.tests.groups
    assert torch.equal(inputs[0], X[6:])
    assert torch.equal(target[0], X[6:] * 2)


def test_a_task_that_draws_from_another_generator_is_refused() -> None:
    @tasks.register
    class Global(Task):
        name = "global"
        summary = "numbers from PyTorch's own generator"

        def sample(self, count: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            x = torch.randn(count, 4, 1)
            return x, self.target(x)

        def target(self, inputs: Tensor) -> Tensor:
            return inputs

    with pytest.raises(PosattnError, match="other samples for the same generator"):
        Fleet([Trial(task="global", model=Positional(length=4), optimiser=Optimiser(steps=1))], device="cpu")
