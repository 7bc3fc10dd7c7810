"""Which tasks may be scored by one of them: those that agree on everything a score can depend on."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from posattn import PosattnError, engine, tasks
from posattn.nn import Positional
from posattn.tasks import UNSCORED, NumericTask, Task
from posattn.tasks.numeric import TASKS, PrefixTask
from posattn.train import Data, Fleet, Optimiser, Trial, shape_key


@dataclass(frozen=True)
class Weighted(NumericTask):
    """A user's task with a loss option of its own. It says nothing of fleets."""

    weight: float = 1.0

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.weight * super().loss(prediction, target)


@dataclass(frozen=True)
class Sharp(NumericTask):
    """A metric option, and the loss of its base."""

    tolerance: float = 0.1

    def metric(self, prediction: Tensor, target: Tensor) -> Tensor:
        near = (prediction - target).abs() <= self.tolerance
        return near.flatten(-3).all(-1).to(prediction.dtype)


@dataclass(frozen=True)
class ByFunction(NumericTask):
    """Its loss reads a field that its base has marked as unscored."""

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return super().loss(self.function(prediction), target)


@dataclass(frozen=True)
class Shifted(NumericTask):
    """An option that moves the target alone, and says so."""

    shift: float = field(default=0.0, metadata=UNSCORED)


def negated(x: Tensor) -> Tensor:
    return -x


def trial(task: str, **options: Any) -> Trial:
    return Trial(
        task=task,
        model=Positional(embed_dim=6, hidden_dim=7, layers=1),
        data=Data(samples=12, batch=6),
        optimiser=Optimiser(steps=4, lr=1e-2),
        task_options=options,
    )


def test_tasks_of_one_loss_share_a_key_whatever_they_compute() -> None:
    assert len({task.loss_key for task in TASKS}) == 1
    assert tasks.get("sum", cumulative=False).loss_key == tasks.get("sort").loss_key
    assert tasks.get("all-pairs").loss_key == tasks.get("edit-distance").loss_key == tasks.get("sum").loss_key
    assert tasks.get("khop", max_hops=2).loss_key == tasks.get("khop").loss_key
    keys = [
        tasks.get(name).loss_key for name in ("sum", "shortest-path", "reachability", "khop", "mixed-min", "selection")
    ]
    assert len(set(keys)) == len(keys)


def test_an_answer_that_is_left_out_of_the_metric_is_in_the_key_of_hops() -> None:
    khop = tasks.get("khop-16")
    assert khop.loss_key == tasks.get("khop-16", letters=3, held_out_letters=1).loss_key
    assert khop.loss_key != tasks.get("khop-16", max_hops=8).loss_key  # “does not exist” is another token
    assert khop.loss_key != tasks.get("khop-16", score_missing=True).loss_key
    assert tasks.get("khop-16", score_missing=True).loss_key == tasks.get("khop").loss_key


def test_the_selection_tasks_loss_option_is_in_its_key() -> None:
    half, one = (tasks.get("selection", kappa=kappa).loss_key for kappa in (0.5, 1.0))
    assert half != one
    assert tasks.get("selection").loss_key == half
    assert tasks.get("sparse-averaging").loss_key != half


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Weighted("a", "", negated), Weighted("a", "", negated, weight=5.0)),
        (Sharp("a", "", negated), Sharp("a", "", negated, tolerance=0.5)),
        (ByFunction("a", "", negated), ByFunction("a", "", torch.abs)),
        (Weighted("a", "", negated), NumericTask("a", "", negated)),
    ],
)
def test_a_users_task_that_says_nothing_shares_a_key_with_its_equals_alone(first: Any, second: Any) -> None:
    assert first.loss_key != second.loss_key
    assert first.loss_key == type(first)(**{**vars(first), "name": "b", "summary": "another"}).loss_key


def test_an_option_that_is_marked_unscored_is_left_out() -> None:
    assert Shifted("a", "", negated, shift=1.0).loss_key == Shifted("b", "", torch.abs).loss_key


def test_a_users_loss_option_is_trained_with_its_own_value_and_not_its_neighbours(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(tasks.REGISTRY, "weighted", Weighted("weighted", "", negated))
    trials = [trial("weighted", weight=weight) for weight in (1.0, 100.0)]
    with pytest.raises(PosattnError, match="differ in their loss"):
        Fleet(trials, device="cpu")
    together = engine.run(trials, out=tmp_path / "together", device="cpu", reporter=engine.Lines())
    for each in trials:
        alone = engine.run([each], out=tmp_path / each.id, device="cpu", reporter=engine.Lines())
        assert together.rows({each.id})[0]["loss"] == alone.rows()[0]["loss"]
    first, second = (together.rows({each.id})[0]["loss"] for each in trials)
    assert 50 * first < second


def test_options_are_the_fields_that_are_not_fixed() -> None:
    assert tasks.get("sum").options == ("cumulative",)
    assert tasks.get("sort").options == tasks.get("mixed-min").options == ()
    assert tasks.get("selection").options == ("kappa",)
    assert tasks.get("khop").options == ("letters", "held_out_letters", "max_hops", "characters", "score_missing")
    assert Weighted("a", "", negated).options == ("weight",)
    assert PrefixTask("a", "", negated).options == ("cumulative",)


def test_a_module_that_is_put_beside_the_others_is_found(tmp_path, monkeypatch) -> None:
    text = "from posattn.tasks.numeric import NumericTask\n"
    text += "TASKS = (NumericTask('reversed', 'the list from its end', lambda x: x.flip(-1)),)\n"
    (tmp_path / "aaa_reversed.py").write_text(text)
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path)])
    found = tasks._discovered()
    assert [name for name in found if name != "reversed"] == list(tasks.OURS)
    assert found["reversed"].target(torch.tensor([[[1.0], [2.0]]])).flatten().tolist() == [2.0, 1.0]


@dataclass(frozen=True)
class Scaled(NumericTask):
    """Its loss asks its class for a number, and a helper that a class derived from it may override."""

    scale = 1.0

    def penalty(self, prediction: Tensor) -> Tensor:
        return torch.zeros_like(prediction).mean(dim=(-3, -2, -1))

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.scale * super().loss(prediction, target) + self.penalty(prediction)


@dataclass(frozen=True)
class ScaledMore(Scaled):
    scale = 50.0


@dataclass(frozen=True)
class Penalised(Scaled):
    def penalty(self, prediction: Tensor) -> Tensor:
        return 70.0 * torch.ones_like(prediction).mean(dim=(-3, -2, -1))


def test_classes_of_users_never_share_a_fleet() -> None:
    """They agree in every field and in `loss` itself, and score differently all the same."""
    made = [kind("t", "a task", negated) for kind in (Scaled, ScaledMore, Penalised, NumericTask)]
    assert len({task.loss_key for task in made}) == 4
    assert Scaled("one", "a task", negated).loss_key == Scaled("two", "another", negated).loss_key


@dataclass(frozen=True)
class Classed(NumericTask):
    """A field that may hold anything."""

    shares: Any = ()


@dataclass
class Loose(Task):
    """Not frozen. Its samples are drawn between bounds that come as a mapping."""

    name: str
    summary: str = "all numbers as they are"
    metric_name = "loss"

    def sample(self, count: int, *, bounds: Any, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.empty(count, 8, 1).uniform_(bounds["low"], bounds["high"], generator=generator)
        return x, self.target(x)

    def target(self, inputs: Tensor) -> Tensor:
        return inputs

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return (prediction - target).square().mean(dim=(-3, -2, -1))

    metric = loss

    def example(self) -> str:
        return "1 → 1"


class Frozen(Loose):
    """Compared by its name."""

    def __hash__(self) -> int:
        return hash(self.name)


@pytest.mark.parametrize(("shares", "kind"), [({"a": 1}, "a dict"), ([1], "a list")])
def test_a_field_that_cannot_be_compared_is_named_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch, shares: Any, kind: str
) -> None:
    monkeypatch.setitem(tasks.REGISTRY, "classed", Classed("classed", "a task", negated, shares=shares))
    with pytest.raises(PosattnError, match=f"task 'classed': its field shares is {kind}.*: use a tuple"):
        shape_key(trial("classed"))


BOUNDED = Data(samples=12, batch=6, options={"bounds": {"low": 0.0, "high": 1.0}})


def test_a_task_that_can_be_changed_is_told_how_not_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tasks.REGISTRY, "loose", Loose("loose"))
    with pytest.raises(
        PosattnError, match=r"task 'loose' can be changed .*: write @dataclass\(frozen=True\) above its"
    ):
        shape_key(replace(trial("loose"), data=BOUNDED))


def test_a_mapping_among_the_options_of_samples_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tasks.REGISTRY, "frozen", Frozen("frozen"))
    fleet = Fleet([replace(trial("frozen"), data=BOUNDED)], device="cpu")
    assert len(list(fleet.run())) > 0
