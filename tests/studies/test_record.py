"""What was asked for: how records join, which commands they stand for, and what is said of one that is no record."""

import json
import re
import shlex
from typing import Any

import pytest

from posattn import PosattnError, studies
from posattn.engine import Store
from posattn.studies.core import record
from posattn.studies.core.record import FORMAT, Record

ARMS = ["standard", "positional", "homogeneous", "gated", "compiled"]
WHY = "model 'gpt2' cannot be loaded: name a folder."


def made(**fields: Any) -> Record:
    usual: dict[str, Any] = {"study": "mixed-type", "preset": "smoke", "tasks": ("mixed-min",)}
    usual["seeds"] = {"standard": 2, "positional": 2}
    return Record(**usual | fields)


# ---- joining


@pytest.mark.parametrize(
    ("newer", "joined"),
    [
        ({"positional": 5}, {"standard": 2, "positional": 5}),
        ({"positional": 1}, {"standard": 2, "positional": 2}),
        ({"homogeneous": 3}, {"standard": 2, "positional": 2, "homogeneous": 3}),
        ({"homogeneous": 3, "standard": 4}, {"standard": 4, "positional": 2, "homogeneous": 3}),
    ],
)
def test_the_most_seeds_of_every_model_count(newer, joined):
    assert made(seeds=newer).joined(made()) == made(seeds=joined)


@pytest.mark.parametrize(
    "other",
    [
        {"preset": "quick"},
        {"choices": {"gelu": "erf"}},
        {"study": "ood-scale"},
    ],
)
def test_another_preset_or_other_options_begin_anew(other):
    newer = made(seeds={"homogeneous": 3}, **other)
    assert newer.joined(made(left_out={"GPT-2": WHY})) == newer


@pytest.mark.parametrize(
    ("older", "newer", "both"),
    [
        (("mixed-min",), ("mixed-sum",), ("mixed-min", "mixed-sum")),
        (("mixed-min",), ("mixed-min",), ("mixed-min",)),
        ((), ("mixed-sum",), ()),
        (("mixed-min",), (), ()),
    ],
)
def test_tasks_are_added_and_none_named_stands_for_all(older, newer, both):
    assert made(tasks=newer).joined(made(tasks=older)).tasks == both


def test_the_first_record_stands_for_itself():
    assert made().joined(None) == made()


@pytest.mark.parametrize("before", [None, "gpt2-large"])
def test_another_language_model_takes_the_old_ones_place_and_leaves_the_other_models(before):
    held = {} if before is None else {"gpt2": before}
    older = made(choices=held, seeds={"standard": 2, "GPT-2": 7}, left_out={"GPT-2": WHY})
    newer = made(choices={"gpt2": "gpt2"}, seeds={"positional": 3})
    own = {"gpt2": ("GPT-2",)}
    assert newer.joined(older, concerning=own) == made(choices={"gpt2": "gpt2"}, seeds={"standard": 2, "positional": 3})
    for same in (made(choices=held, seeds={"positional": 3}), made(seeds={"positional": 3})):
        assert same.joined(older, concerning=own).seeds == {"standard": 2, "positional": 3, "GPT-2": 7}
        assert same.joined(older, concerning=own).choices == held


def test_a_model_that_was_left_out_is_so_no_longer_once_it_was_run():
    older = made(left_out={"GPT-2": WHY})
    assert made(seeds={"positional": 3}).joined(older).left_out == {"GPT-2": WHY}
    assert made(seeds={"GPT-2": 1}).joined(older) == made(seeds=made().seeds | {"GPT-2": 1})


def test_a_model_that_is_in_the_table_is_never_called_left_out():
    """Out of reach for the third seed: the two that it has stay."""
    older = made(seeds={"standard": 2, "GPT-2": 2})
    joined = made(seeds={}, left_out={"GPT-2": WHY}).joined(older)
    assert (joined.seeds, joined.left_out) == ({"standard": 2, "GPT-2": 2}, {})


# ---- commands


MIXED, ROTARY = studies.get("mixed-type"), studies.get("rotary")


def test_one_command_stands_for_all_models_with_one_number_of_seeds():
    counts = {"mixed-min": dict.fromkeys(ARMS, 3)}
    assert made().commands(MIXED, counts) == ["posattn run mixed-type --task mixed-min --preset smoke --seeds 3"]


def test_one_command_stands_for_all_tasks_with_the_same_models():
    counts = {task: {"standard": 2} for task in MIXED.tasks}
    assert made().commands(MIXED, counts) == ["posattn run mixed-type --model standard --preset smoke --seeds 2"]


def test_there_is_a_command_for_every_number_of_seeds_and_names_are_quoted():
    models = {"rotary, input X‖P": 2, "positional": 10, "rotary, input X": 2}
    commands = made(study="rotary").commands(ROTARY, {"sum": models, "max-subarray": models, "min": {"positional": 1}})
    head = ["posattn", "run", "rotary", "--task", "sum", "--task", "max-subarray"]
    assert [shlex.split(command) for command in commands] == [
        [*head, "--model", "rotary, input X‖P", "--model", "rotary, input X", "--preset", "smoke", "--seeds", "2"],
        [*head, "--model", "positional", "--preset", "smoke", "--seeds", "10"],
        ["posattn", "run", "rotary", "--task", "min", "--model", "positional", "--preset", "smoke", "--seeds", "1"],
    ]


def test_the_language_model_is_part_of_the_command():
    held = made(choices={"gpt2": "my models/gpt2"})
    study = MIXED.choosing(held.choices)
    assert held.commands(study, {task: {"GPT-2": 1} for task in MIXED.tasks}) == [
        "posattn run mixed-type --model GPT-2 --preset smoke --seeds 1 --option 'gpt2=my models/gpt2'"
    ]


# ---- files


def test_what_is_written_reads_back(tmp_path):
    store = Store(tmp_path)
    assert record.read(store, "mixed-type") is None
    assert record.recorded(store) == []
    for held in (made(), made(tasks=(), choices={"gpt2": "gpt2"}, left_out={"GPT-2": WHY})):
        record.write(store, held)
        assert record.read(store, "mixed-type") == held
    record.write(store, made(study="accuracy"))
    assert record.recorded(store) == ["accuracy", "mixed-type"]


def written(folder: Any, content: str | bytes) -> str:
    path = folder / "studies" / "mixed-type.json"
    path.parent.mkdir()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(PosattnError) as caught:
        record.read(Store(folder), "mixed-type")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"'{path}' ")
    return str(caught.value)


WHOLE = {"format": FORMAT, "study": "mixed-type", "preset": "smoke", "tasks": [], "seeds": {"standard": 1}}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        b"\xff",
        "null",
        "[]",
        "7",
        "{}",
        '{"format": 2}',
        *(
            json.dumps(WHOLE | wrong)
            for wrong in (
                {"format": None},
                {"format": "2"},
                {"tasks": None},
                {"seeds": None},
                {"seeds": {}},
                {"seeds": [1]},
                {"seeds": {"standard": 0}},
                {"seeds": {"standard": "1"}},
                {"left_out": ["GPT-2"]},
                {"colour": "red"},
                {"language_model": "gpt2"},
                {"format": 3, "choices": ["gpt2"]},
            )
        ),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_what_is_no_record_is_named_with_the_way_out(tmp_path, content):
    said = written(tmp_path, content)
    assert re.search(r"cannot be read \(.+\): run the study again, posattn run mixed-type, what is finished", said)


def test_a_record_of_an_older_version_is_named_with_the_way_out(tmp_path):
    said = written(tmp_path, json.dumps(WHOLE | {"format": 1, "seeds": 2}))
    assert f"it has format 1, this version writes {FORMAT}): run the study again, posattn run mixed-type" in said


@pytest.mark.parametrize("others", [{}, {"seeds": "in another form"}])
def test_a_record_of_a_newer_version_says_that_and_nothing_else(tmp_path, others):
    said = written(tmp_path, json.dumps(WHOLE | {"format": FORMAT + 1} | others))
    path = tmp_path / "studies" / "mixed-type.json"
    assert said == f"'{path}' was written by a newer version of posattn: install that version."


def test_a_record_from_before_there_was_a_choice_says_what_stood_for_it(tmp_path):
    held = {"format": 2, "study": "khop-depth", "preset": "paper", "tasks": ["khop"], "language_model": None}
    held |= {"choices": {"standard_layers": "4"}, "seeds": {"standard": 3}, "left_out": {}}
    store = Store(tmp_path)
    record.path_of(store, "khop-depth").parent.mkdir()
    record.path_of(store, "khop-depth").write_text(json.dumps(held))
    found = record.read(store, "khop-depth")
    assert found is not None
    assert found.choices == {"gelu": "erf", "standard_layers": "4"}
    record.write(store, found)
    assert record.read(store, "khop-depth") == found
    record.path_of(store, "khop-depth").write_text(json.dumps(held | {"format": 3}))
    now = record.read(store, "khop-depth")
    assert now is not None
    assert now.choices == {"standard_layers": "4"}


@pytest.mark.parametrize("written", [2, 3])
def test_the_language_model_of_an_older_record_is_option_gpt2(tmp_path, written):
    held = WHOLE | {"format": written, "language_model": "models/gpt2", "left_out": {}}
    store = Store(tmp_path)
    record.path_of(store, "mixed-type").parent.mkdir()
    record.path_of(store, "mixed-type").write_text(json.dumps(held))
    found = record.read(store, "mixed-type")
    assert found is not None
    assert found.choices == {"gpt2": "models/gpt2"}
    record.write(store, found)
    kept = json.loads(record.path_of(store, "mixed-type").read_text())
    assert (kept["format"], "language_model" in kept) == (FORMAT, False)
    assert record.read(store, "mixed-type") == found
