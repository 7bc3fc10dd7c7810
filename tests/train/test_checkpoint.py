"""A fleet goes on from a checkpoint bit for bit; a damaged one is named, and the one before it used."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

from offsets import offset, placed
from posattn import PosattnError
from posattn.train import Checkpoints, Fleet, Trial
from posattn.train.fleet.checkpoint import begun

from .small import score_difference, small_trial, trained

PLATEAU = {"schedule": "plateau", "patience": 0, "steps": 26}
#: Two replicas whose epochs have 4 and 2 steps (12 and 6 with lengths), and one that diverges.
KINDS: dict[str, list[Trial]] = {
    "plateau": [small_trial(seed=s, data={"samples": n}, optimiser=PLATEAU) for s, n in ((0, 24), (1, 13))],
    "lengths": [
        small_trial(seed=s, data={"samples": n, "lengths": (2, 3, 5), "options": {}}, optimiser=PLATEAU)
        for s, n in ((0, 72), (1, 39))
    ],
    "fresh": [small_trial(seed=s, data={"samples": n, "fresh": True}) for s, n in ((0, 24), (1, 13))],
    "sgd": [small_trial(seed=s, optimiser={"name": "sgd", "momentum": 0.9, "lr": 1e-3}) for s in range(2)],
    "diverging": [small_trial(precision="float32", optimiser={"lr": lr, "clip": 1.0}) for lr in (1e-3, 1e30)],
}  # fmt: skip


def saved(trials: list[Trial], folder: Path, *steps: int, notes: Any = None) -> Checkpoints:
    """Train, with a checkpoint after each of these steps."""
    checkpoints = Checkpoints(folder, Fleet(trials, device="cpu"))
    for step in checkpoints.fleet.run(max(steps)):
        if step in steps:
            checkpoints.write(notes or {})
    return checkpoints


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_fleet_ends_bit_for_bit_where_the_other_ends(kind, tmp_path):
    whole = Fleet(KINDS[kind], device="cpu")
    # The first step, ends of epochs, the last steps, and two at random.
    chosen = {1, 4, 12, whole.steps - 1, whole.steps, *random.Random(kind).sample(range(1, whole.steps), 2)}
    for step in whole.run():
        if step in chosen:
            Checkpoints(tmp_path / str(step), whole).write({"history": [[step]], "seconds": 1.5})
    for step in chosen:
        again = Fleet(KINDS[kind], device="cpu")
        assert Checkpoints(tmp_path / str(step), again).restore() == {"history": [[step]], "seconds": 1.5}
        assert list(again.run()) == list(range(step + 1, whole.steps + 1))
        torch.testing.assert_close(again.state(), whole.state(), rtol=0, atol=0, equal_nan=True)
        assert again.divergence() == whole.divergence()
        for replica in range(2):
            assert score_difference(again.scores()[replica], whole.scores()[replica]) == 0
    assert (whole.divergence()[1] is not None) == (kind == "diverging")


@pytest.mark.parametrize("at", range(4, 64, 4))
def test_it_ends_there_wherever_the_reader_puts_its_tensors(at):
    trials = KINDS["sgd"]
    whole = Fleet(trials, device="cpu")
    for _ in whole.run(15):
        pass
    state = {name: placed(tensor, at) for name, tensor in whole.state().items()}
    again = Fleet(trials, device="cpu")
    again.restore(state, 15)
    for fleet in (whole, again):
        for _ in fleet.run():
            pass
        assert {offset(tensor) for tensor in fleet.state().values()} == {0}
    torch.testing.assert_close(again.state(), whole.state(), rtol=0, atol=0, equal_nan=True)


def test_a_fleet_can_also_go_back(tmp_path):
    """A fleet that has trained on holds another epoch's order; restoring must not leave it there."""
    trials = KINDS["fresh"]
    checkpoints = saved(trials, tmp_path, 3)
    for _ in checkpoints.fleet.run():
        pass
    assert checkpoints.restore() == {}
    for _ in checkpoints.fleet.run():
        pass
    assert torch.equal(checkpoints.fleet.parameters.values, trained(trials).parameters.values)


def test_without_a_checkpoint_there_is_nothing_to_restore(tmp_path):
    fleet = Fleet(KINDS["plateau"], device="cpu")
    assert Checkpoints(tmp_path, fleet).restore() is None
    assert fleet.step == 0


def test_the_two_newest_are_kept(tmp_path):
    checkpoints = saved(KINDS["plateau"], tmp_path, 1, 2, 5, 9, 10)
    assert [path.name for path in checkpoints.files()] == ["000000000009.safetensors", "000000000010.safetensors"]
    assert checkpoints.folder.parent == tmp_path


def flip(place: int, bit: int = 0) -> Any:
    def flipped(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        return bytes(changed)

    return flipped


def step_changed(content: bytes) -> bytes:
    """Damage that leaves a valid file: another step in the header."""
    assert content.count(b'"step":"9"') == 1
    return content.replace(b'"step":"9"', b'"step":"8"')


DAMAGE: dict[str, Any] = {
    "empty": lambda content: b"",
    "cut in the header": lambda content: content[:50],
    "cut by half": lambda content: content[: len(content) // 2],
    "last byte gone": lambda content: content[:-1],
    "no safetensors": lambda content: b"0123456789" * 50,
    "a bit of the header's length": flip(0),
    "a high bit of the header's length": flip(6, 7),
    "a bit of the header": flip(9, 7),
    "another bit of the header": flip(40),
    "the step": step_changed,
    "a bit of a weight": flip(-1, 6),
    "a bit of another tensor": flip(-5000),
    "appended": lambda content: content + b"x",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(damage, tmp_path):
    trials = KINDS["plateau"]
    older, newest = saved(trials, tmp_path, 6, 9).files()
    newest.write_bytes(DAMAGE[damage](newest.read_bytes()))
    fleet = Fleet(trials, device="cpu")
    with pytest.warns(UserWarning, match=re.escape(f"checkpoint '{newest}' cannot be used (")) as caught:
        assert Checkpoints(tmp_path, fleet).restore() == {}
    assert len(caught) == 1
    assert str(caught[0].message).endswith("): trying the one before it.")
    assert fleet.step == 6
    assert torch.equal(fleet.state()["values"], safetensors.torch.load_file(older)["values"])


def test_no_bit_of_the_header_can_change_unnoticed(tmp_path):
    (path,) = saved(KINDS["plateau"], tmp_path, 1, notes={"history": [[{"loss": 0.125}]]}).files()
    content, fleet = path.read_bytes(), Fleet(KINDS["plateau"], device="cpu")
    checkpoints, before = Checkpoints(tmp_path, fleet), fleet.parameters.values.clone()
    for place in range(8, 8 + int.from_bytes(content[:8], "little"), 2):
        path.write_bytes(flip(place, place % 7)(content))
        with pytest.warns(UserWarning, match="cannot be used"):
            assert checkpoints.restore() is None
        assert fleet.step == 0
        assert torch.equal(fleet.parameters.values, before)


def test_when_all_are_damaged_each_is_named_and_new_ones_are_kept(tmp_path):
    trials = KINDS["plateau"]
    for path in (files := saved(trials, tmp_path, 6, 9).files()):
        path.write_bytes(b"")
    checkpoints = Checkpoints(tmp_path, Fleet(trials, device="cpu"))
    with pytest.warns(UserWarning, match="cannot be used") as caught:
        assert checkpoints.restore() is None
    assert [str(path) in str(warning.message) for path, warning in zip(reversed(files), caught, strict=True)] == [
        True
    ] * 2
    for _ in checkpoints.fleet.run(2):
        checkpoints.write({})
    assert [path.name for path in checkpoints.files()] == ["000000000001.safetensors", "000000000002.safetensors"]


def test_a_checkpoint_of_other_trials_is_refused(tmp_path):
    (theirs,) = saved(KINDS["fresh"], tmp_path, 3).files()
    mine = Checkpoints(tmp_path, Fleet(KINDS["fresh"][::-1], device="cpu"))
    assert mine.folder != theirs.parent
    assert mine.restore() is None  # in another folder, it is not even looked at
    mine.folder.mkdir()
    theirs.rename(mine.folder / theirs.name)
    with pytest.warns(UserWarning, match="it belongs to other trials"):
        assert mine.restore() is None
    assert mine.fleet.step == 0


def test_a_checkpoint_of_another_format_is_refused(tmp_path, monkeypatch):
    checkpoints = saved(KINDS["fresh"], tmp_path, 3)
    monkeypatch.setattr("posattn.train.fleet.checkpoint.FORMAT", 2)
    with pytest.warns(UserWarning, match="it has another format"):
        assert checkpoints.restore() is None


def test_a_state_of_another_shape_is_refused_before_anything_is_changed():
    fleet = Fleet(KINDS["fresh"], device="cpu")
    before = {name: tensor.clone() for name, tensor in fleet.state().items()}
    for change in ({"values": torch.zeros(2, 3)}, {"alive": torch.zeros(2)}):
        state = {
            name: tensor + 1 if tensor.dtype != torch.bool else ~tensor for name, tensor in before.items()
        } | change
        with pytest.raises(PosattnError, match=f"the saved state has no '{next(iter(change))}' of shape"):
            fleet.restore(state, 5)
    with pytest.raises(PosattnError, match="has no 'values'"):
        fleet.restore({}, 5)
    assert fleet.step == 0
    assert all(torch.equal(tensor, before[name]) or tensor.isnan().all() for name, tensor in fleet.state().items())


def test_a_checkpoint_is_plain_safetensors_with_a_json_header(tmp_path):
    """Nothing in it can be executed: no pickle is written, and none is read."""
    checkpoints = saved(KINDS["plateau"], tmp_path, 2, notes={"seconds": 2.5})
    (path,) = checkpoints.files()
    with safetensors.safe_open(path, framework="pt") as file:
        header = file.metadata()
    assert json.loads(header["trials"]) == [trial.id for trial in KINDS["plateau"]]
    assert (header["step"], json.loads(header["notes"])) == ("2", {"seconds": 2.5})
    torch.save({"values": torch.zeros(1)}, path)
    with pytest.warns(UserWarning, match="cannot be used"):
        assert checkpoints.restore() is None


def test_fleets_that_were_begun_are_listed_until_they_are_removed(tmp_path):
    every = [Checkpoints(tmp_path, Fleet(KINDS[kind], device="cpu")) for kind in ("plateau", "fresh")]
    assert begun(tmp_path) == {}
    for checkpoints in every:
        checkpoints.begin()
    assert begun(tmp_path) == {checkpoints.folder: checkpoints.ids for checkpoints in every}
    (every[0].folder / "trials.json").write_bytes(b"\xff")
    every[1].remove()
    assert begun(tmp_path) == {}
    assert not every[1].folder.exists()
