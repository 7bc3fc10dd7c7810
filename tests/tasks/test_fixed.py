"""Fixed tensors as a task: rows, splits, files and frames."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError
from posattn.tasks import Fixed

X = torch.arange(42.0).reshape(7, 3, 2)
Y = X.sum(-1, keepdim=True)
SPLITS = {"train": slice(0, 5), "test": [6, 5]}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def fixed(x: Any = X, y: Any = Y, splits: Any = SPLITS, **given: Any) -> Fixed:
    name = given.pop("name", "mine")
    return Fixed(x, y, splits, name=name, **given)


def test_all_rows_of_a_split_come_in_order() -> None:
    x, y = fixed().sample(5, generator=seeded())
    assert torch.equal(x, X[:5])
    assert torch.equal(y, Y[:5])
    x, y = fixed().sample(2, split="test", generator=seeded())
    assert torch.equal(x, X[[6, 5]])


def test_fewer_rows_are_drawn_without_replacement_by_the_generator() -> None:
    found = {tuple(fixed().sample(3, generator=seeded(seed))[1][:, 0, 0].tolist()) for seed in range(30)}
    assert all(len(set(rows)) == 3 and set(rows) <= set(Y[:5, 0, 0].tolist()) for rows in found)
    assert len(found) > 10
    first, again = (fixed().sample(3, generator=seeded(4)) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], first[0].sum(-1, keepdim=True))  # inputs keep their targets


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"count": 6}, r"count=6: split 'train' of task 'mine' has 5 rows\. Ask for at most 5"),
        ({"count": 1, "split": "tset"}, r"unknown split of task 'mine' 'tset': did you mean 'test'"),
        ({"count": 0}, r"count=0"),
    ],
)
def test_rows_that_are_not_there_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        fixed().sample(given.pop("count"), **given, generator=seeded())


def test_several_inputs_come_as_a_tuple() -> None:
    places = torch.arange(7)
    inputs, y = fixed((X, places)).sample(2, split="test", generator=seeded())
    assert isinstance(inputs, tuple)
    assert torch.equal(inputs[1], torch.tensor([6, 5]))
    assert torch.equal(y, Y[[6, 5]])
    assert torch.equal(fixed((X, places)).target((X[[2]], places[[2]])), Y[[2]])


def test_targets_are_known_for_rows_of_the_data_only() -> None:
    assert torch.equal(fixed().target(X[[3, 1, 3]]), Y[[3, 1, 3]])
    with pytest.raises(PosattnError, match=r"task 'mine' holds fixed data: an input is none of its rows"):
        fixed().target(X + 0.5)
    with pytest.raises(PosattnError, match=r"other shapes than the data's rows, \[\(3, 2\)\]"):
        fixed().target(X[:, :2])


@pytest.mark.parametrize(
    ("splits", "rows"),
    [
        ({"train": [0, 2], "b": range(3, 5)}, {"train": [0, 2], "b": [3, 4]}),
        ({"train": np.array([1, 1])}, {"train": [1, 1]}),
        ({"train": torch.tensor([True] + [False] * 6)}, {"train": [0]}),
        ({"train": slice(None, None, 3)}, {"train": [0, 3, 6]}),
    ],
)
def test_splits_are_indices_slices_or_masks(splits: dict[str, Any], rows: dict[str, list[int]]) -> None:
    assert {name: held.tolist() for name, held in fixed(splits=splits).splits.items()} == rows


def test_shares_cut_every_row_into_one_split_by_a_fixed_seed() -> None:
    x = torch.arange(101.0)
    task = fixed(x, x, {"train": 0.7, "valid": 0.1, "test": 0.2})
    rows = [set(held.tolist()) for held in task.splits.values()]
    assert [len(held) for held in rows] == [71, 10, 20]
    assert set.union(*rows) == set(range(101))
    order = torch.randperm(101, generator=seeded(0))  # as the docstring says
    assert rows[0] == set(order[:71].tolist())
    assert fixed(x, x, {"train": 0.8, "test": 0.2}).content == Fixed(x, x, name="other").content


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ({}, "splits={}"),
        ([0, 1], "splits="),
        ({"test": [0]}, "one must be called 'train'"),
        ({"train": 0.5, "test": [1]}, "some are shares and some are not"),
        ({"train": 0.9, "test": 0.2}, "add up to 1.1"),
        ({"train": -0.1}, "a share is above 0 and at most 1"),
        ({"train": [0, 7]}, r"a row outside 0 … 6"),
        ({"train": [-1]}, r"a row outside 0 … 6"),
        ({"train": []}, "split 'train'"),
        ({"train": slice(9, 10)}, "split 'train' has no row of 7"),
        ({"train": [0.5]}, "are no indices"),
        ({"train": "0"}, "split 'train' is a str"),
        ({"train": torch.ones(3, dtype=torch.bool)}, r"a mask of shape \(3,\) for 7 rows"),
        ({3: [1]}, "3 is no name"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_splits_that_make_no_sense_are_refused(splits: Any, said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        fixed(splits=splits)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x": X[:5]}, r"x has 5 rows and y 7"),
        ({"x": (X, X[:2])}, r"x\[1\] has 2 rows and y 7"),
        ({"x": ()}, r"x=\(\): give at least one input"),
        ({"x": torch.tensor(3.0)}, r"x has shape \(\)"),
        ({"x": "words"}, "x is a str, 'words': give a tensor or a NumPy array"),
        ({"x": np.array(["a"] * 7)}, "x is an array of <U1: give numbers"),
        ({"y": torch.where(X > 40, torch.nan, X)}, r"y: nan at \[6, 2, 1\]"),
        ({"x": X + torch.inf}, r"x: inf at \[0, 0, 0\]"),
        ({"y": -torch.ones(7).long()}, r"y holds class -1: classes count from 0"),
        ({"y": torch.arange(7), "classes": 6}, r"classes=6: y holds class 6"),
        ({"classes": 3}, r"classes=3: y holds numbers"),
        ({"y": torch.zeros(7, dtype=torch.complex64)}, "complex64"),
        ({"name": ""}, "name=''"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_data_that_cannot_be_learned_from_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        fixed(**given)


def test_classes_are_counted_unless_they_are_given() -> None:
    assert fixed(y=torch.tensor([0, 4, 1, 1, 1, 1, 0])).classes == 5
    assert fixed(y=torch.zeros(7).long(), classes=9).classes == 9
    assert fixed().classes is None


def test_the_data_is_a_copy() -> None:
    x = X.clone()
    task = fixed(x)
    x.zero_()
    assert torch.equal(task.sample(5, generator=seeded())[0], X[:5])


@pytest.mark.parametrize(
    "other",
    [
        {"x": X + 1},
        {"x": X.double()},
        {"x": X.reshape(7, 2, 3)},
        {"y": Y * 2},
        {"splits": {"train": slice(0, 4), "test": [6, 5]}},
        {"splits": {"train": slice(0, 5), "tests": [6, 5]}},
    ],
)
def test_any_change_of_the_data_is_another_content(other: dict[str, Any]) -> None:
    assert fixed(**other).content != fixed().content
    assert len(fixed().content) == 16


def test_content_is_of_the_data_alone() -> None:
    assert fixed(X.numpy().copy(), name="other", summary="x").content == fixed().content


def test_a_task_that_is_asked_for_by_content_must_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "REGISTRY", dict(tasks.REGISTRY))
    task = tasks.register(fixed())
    assert tasks.get("mine") is tasks.get("mine", content=task.content) is task
    with pytest.raises(PosattnError, match=rf"the data of task 'mine' has changed: content '12'.*'{task.content}'"):
        tasks.get("mine", content="12")
    with pytest.raises(PosattnError, match="unknown option of task 'mine' 'contents': did you mean 'content'"):
        tasks.get("mine", contents="12")


# ---- files and frames


def test_arrays_are_read_from_npz_and_safetensors(tmp_path: Path) -> None:
    np.savez(tmp_path / "pairs.npz", x=X.numpy(), y=Y.numpy(), extra=np.arange(7))
    safetensors.torch.save_file({"x": X, "y": Y, "extra": torch.arange(7)}, tmp_path / "pairs.safetensors")
    for file in ("pairs.npz", "pairs.safetensors"):
        task = Fixed.read(tmp_path / file, splits=SPLITS)
        assert (task.name, task.content) == ("pairs", fixed().content)
        both = Fixed.read(tmp_path / file, inputs=["x", "extra"], splits=SPLITS, name="both")
        assert both.content == fixed((X, torch.arange(7))).content


def test_nothing_is_unpickled_and_a_file_without_data_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.array([{}, {}], dtype=object), y=np.zeros(2))
    (tmp_path / "garbage.safetensors").write_bytes(b"garbage!" * 9)
    np.savez(tmp_path / "pairs.npz", x=X.numpy(), y=Y.numpy())
    for file in ("objects.npz", "garbage.safetensors", "missing.npz", "data.csv"):
        with pytest.raises(PosattnError, match=file):
            Fixed.read(tmp_path / file)
    with pytest.raises(PosattnError, match=r"unknown array of '.*pairs.npz' 'z': .*Known: x, y"):
        Fixed.read(tmp_path / "pairs.npz", target="z")


FRAME = pd.DataFrame({"width": [1.0, 2.0, 3.0], "high": [True, False, True], "label": ["b", "a", "b"], "n": [5, 6, 7]})


def test_a_frame_gives_a_matrix_and_classes_in_the_order_of_their_labels() -> None:
    task = Fixed.from_frame(FRAME, target="label", splits={"train": slice(None)}, name="frame")
    x, y = task.sample(3, generator=seeded())
    assert x.tolist() == [[1, 1, 5], [2, 0, 6], [3, 1, 7]]
    assert (y.tolist(), task.classes) == ([1, 0, 1], 2)
    numbers = Fixed.from_frame(FRAME, target="width", inputs=["n"], splits={"train": slice(None)}, name="frame")
    assert [tensor.tolist() for tensor in numbers.sample(3, generator=seeded())] == [[[5], [6], [7]], [1, 2, 3]]
    assert numbers.classes is None


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("frame", "given", "said"),
    [
        (FRAME, {"target": "lable"}, "unknown column 'lable': did you mean 'label'"),
        (FRAME, {"target": "width"}, "column 'label' holds .* and inputs are numbers"),
        (FRAME, {"target": "n", "inputs": []}, r"inputs=\[\]: there is no column"),
        (FRAME, {"target": "n", "inputs": ["size"]}, "unknown column 'size'"),
        (FRAME.assign(label=["a", None, "b"]), {"target": "label", "inputs": ["n"]}, "column 'label' lacks 1 of 3"),
        (FRAME.assign(n=[1.0, np.nan, 2]), {"target": "width", "inputs": ["n"]}, r"x: nan at \[1, 0\]"),
        ({"a": [1]}, {"target": "a"}, "frame is a dict"),
    ],
)
def test_columns_that_are_no_data_are_named(frame: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        Fixed.from_frame(frame, name="frame", splits={"train": slice(None)}, **given)


def test_fixed_data_is_scored_by_the_defaults() -> None:
    task: Any = fixed()
    two: Tensor = torch.stack([Y, Y + 2])
    assert task.loss(two, torch.stack([Y, Y])).tolist() == [0.0, 4.0]
