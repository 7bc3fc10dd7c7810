"""What holds for every task: its name, its options, and that data depend on the generator alone."""

import dataclasses
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError

NUMERIC = ["sum", "min", "max", "median", "whole-median", "sort", "max-subarray", "min-sum"]
NAMES = [
    *NUMERIC,
    "shortest-path",
    *("all-pairs", "widest-path", "reachability"),
    *("edit-distance", "warping"),
    *("khop", "khop-16"),
    *("mixed-min", "mixed-sum", "mixed-multitask"),
    *("selection", "sparse-averaging"),
]
every_task = pytest.mark.parametrize("name", NAMES)
WITH_DTYPE = [name for name in NAMES if not name.startswith("khop")]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(name: str, generator: torch.Generator, **asked: Any) -> list[Tensor]:
    inputs, y = tasks.get(name).sample(5, generator=generator, **asked)
    return [y, inputs] if isinstance(inputs, Tensor) else [y, *inputs]


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_registry_names_every_task() -> None:
    assert tasks.names() == NAMES


@every_task
def test_task_knows_its_own_name_and_says_what_it_is(name: str) -> None:
    task = tasks.get(name)
    assert task.name == name
    assert task.summary
    assert task.metric_name in {"accuracy", "entry accuracy", "token accuracy", "MAPE", "squared error"}


@every_task
def test_task_cannot_be_changed_in_place(name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        tasks.get(name).name = "another"


@every_task
def test_same_generator_state_gives_the_same_data(name: str) -> None:
    assert same(drawn(name, seeded(7)), drawn(name, seeded(7)))


@every_task
def test_another_seed_and_the_next_draw_give_other_data(name: str) -> None:
    generator = seeded(7)
    first = drawn(name, generator)
    assert not same(first, drawn(name, generator))
    assert not same(first, drawn(name, seeded(8)))


@every_task
def test_global_random_state_neither_changes_nor_matters(name: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        before = torch.get_rng_state()
        first = drawn(name, seeded())
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(1)
        assert same(first, drawn(name, seeded()))


@pytest.mark.parametrize("name", WITH_DTYPE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_have_the_dtype_asked_for(name: str, dtype: torch.dtype) -> None:
    found = {tensor.dtype for tensor in drawn(name, seeded(), dtype=dtype) if tensor.is_floating_point()}
    assert found == {dtype}


@every_task
def test_device_may_be_named_if_the_generator_lives_there(name: str) -> None:
    assert same(drawn(name, seeded(), device="cpu"), drawn(name, seeded()))
    assert {tensor.device.type for tensor in drawn(name, seeded(), device="cpu")} == {"cpu"}


@every_task
@pytest.mark.parametrize("count", [0, -3])
def test_no_samples_cannot_be_drawn(name: str, count: int) -> None:
    with pytest.raises(PosattnError, match=rf"count={count}: draw at least one sample\."):
        tasks.get(name).sample(count, generator=seeded())


@every_task
def test_missing_device_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(PosattnError, match=r"device 'cuda' is not there: .*Use 'auto' or 'cpu'\."):
        tasks.get(name).sample(3, generator=seeded(), device="cuda")


@every_task
def test_generator_of_another_device_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(PosattnError, match=r"device='cuda' but the generator lives on 'cpu': make it with torch"):
        tasks.get(name).sample(3, generator=seeded(), device="cuda")


EXAMPLES = {
    "sum": "3 -1 2 -4 → 3 2 4 0",
    "min": "3 -1 2 -4 → 3 -1 -1 -4",
    "max": "3 -1 2 -4 → 3 3 3 3",
    "median": "3 -1 2 -4 → 3 1 2 0.5",
    "sort": "3 -1 2 -4 → -4 -1 2 3",
    "max-subarray": "3 -1 2 -4 → 3 3 4 4",
    "min-sum": "3 -1 2 -4 → 5 -5 5 -5",
    "whole-median": "3 -1 2 -4 → 0.5 0.5 0.5 0.5",
    "shortest-path": "0 –3– 1 –1– 2 → d(0, 2) = 4",
    "all-pairs": "0 1 9 / 9 0 2 / 1 9 0 → 0 1 3 / 3 0 2 / 1 2 0",
    "widest-path": "9 5 1 / 1 9 4 / 2 1 9 → 9 5 4 / 2 9 4 / 2 2 9",
    "reachability": "1 1 0 / 0 1 1 / 0 0 1 → 1 1 1 / 0 1 1 / 0 0 1",
    "edit-distance": "0 1 1 / 5 1 1 / 5 1 1 / 3 1 1 → 0 1 1 2",
    "warping": "1 1 1 / 5 5 5 / 2 2 2 / 3 3 3 → 1 6 3 4",
    "khop": "1 abacab → _ ~~b~ca",
    "khop-16": "1 abacab → _ ~~b~ca",
    "selection": "4 1 8, {0, 2} → 6",
    "sparse-averaging": "4 1 8, {0, 2} {1, 2} {0, 1} → 6 4.5 2.5",
}


@pytest.mark.parametrize(("name", "shown"), EXAMPLES.items())
def test_example_is_right(name: str, shown: str) -> None:
    assert tasks.get(name).example() == shown


@pytest.mark.parametrize(("name", "words"), [("mixed-min", "min"), ("mixed-sum", "sum"), ("mixed-multitask", "m")])
def test_example_of_a_prompt_ends_in_a_value_of_two_decimals(name: str, words: str) -> None:
    question, _, value = tasks.get(name).example().partition(" → ")
    assert question.startswith(f"… Find {words}")
    assert value == f"{float(value):.2f}"


def test_options_replace_fields_and_leave_the_registered_task_alone() -> None:
    assert tasks.get("sum", cumulative=False).cumulative is False
    assert tasks.get("selection", kappa=1.0).kappa == 1.0
    assert tasks.get("khop", max_hops=5).vocabulary == 18
    assert tasks.get("sum").cumulative is True
    assert tasks.get("selection").kappa == 0.5
    assert tasks.get("khop").vocabulary == 16


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("sotr", {}, ["unknown task 'sotr'", "did you mean 'sort'?", "Known: sum, min, max"]),
        ("max_subarray", {}, ["unknown task 'max_subarray'", "did you mean 'max-subarray'?"]),
        ("", {}, ["unknown task ''", "Known: sum"]),
        ("sum", {"cumulativ": False}, ["unknown option of task 'sum' 'cumulativ'", "did you mean 'cumulative'?"]),
        ("sort", {"cumulative": False}, ["'cumulative'", "task 'sort' has no options", "Leave it out"]),
        ("shortest-path", {"cumulative": True}, ["'cumulative'", "task 'shortest-path' has no options"]),
        ("khop", {"hops": 2}, ["unknown option of task 'khop' 'hops'", "did you mean 'max_hops'?"]),
        # What makes a task that task is no option.
        ("sum", {"function": torch.sort}, ["unknown option of task 'sum' 'function'"]),
        ("sum", {"summary": "min"}, ["unknown option of task 'sum' 'summary'"]),
        ("mixed-min", {"operations": ("max",)}, ["task 'mixed-min' has no options"]),
    ],
)
def test_unknown_task_or_option_is_refused_and_the_nearest_one_named(name: str, options: dict, said: list[str]) -> None:
    with pytest.raises(PosattnError) as refused:
        tasks.get(name, **options)
    for words in said:
        assert words in str(refused.value)


@every_task
@pytest.mark.usefixtures("as_users_run_it")
def test_shapes_that_would_broadcast_are_refused_by_loss_and_metric(name: str) -> None:
    task = tasks.get(name)
    _, y = task.sample(5, generator=seeded())
    right = torch.zeros(*y.shape, task.vocabulary) if name.startswith("khop") else y.clone()
    for score in (task.loss, task.metric):
        assert score(right, y).shape == ()
        assert score(right[None].expand(2, *right.shape), y[None].expand(2, *y.shape)).shape == (2,)  # a fleet
        for wrong in (right[:1], right.unsqueeze(-1), right.flatten()[0], right[None]):
            with pytest.raises(PosattnError, match=rf"task '{name}': .*{re.escape(str(tuple(wrong.shape)))}") as caught:
                score(wrong, y)
            assert str(tuple(y.shape)) in str(caught.value)


@pytest.mark.usefixtures("as_users_run_it")
def test_a_column_is_no_row() -> None:
    with pytest.raises(PosattnError, match=r"the prediction has shape \(8, 8, 1\) and the target \(8, 8\)"):
        tasks.get("sum").loss(torch.zeros(8, 8, 1), torch.zeros(8, 8))
