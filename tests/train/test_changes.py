"""A change sets its field and nothing else: the oracle is the trial's own JSON, edited in that one place."""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posattn import PosattnError
from posattn.errors import NoSuchField
from posattn.nn import Architecture, FullyConnected, Positional, Selector
from posattn.nn.architecture import ARCHITECTURES
from posattn.studies.core.case import Case
from posattn.studies.core.changed import described
from posattn.studies.selection.closed_form import Slope
from posattn.train import Data, Evaluation, Optimiser, Trial
from posattn.train.changes import LONGEST_NAME, apply, has_field, name, parse, settled, written
from posattn.train.language.trial import FIELDS, LanguageTrial

from .small import small_trial

FAR = {"low": -6.0, "high": 6.0, "avoid": (-2.0, 2.0)}
TRIAL = small_trial(evaluation={"sets": {"near": {}, "far": FAR}})
LANGUAGE = LanguageTrial(
    task="mixed-min", samples=7, test_samples=5, model="gpt2", sets={"near": {}, "far": {"high": 9.0}}
)


def at(description: str, path: str) -> Any:
    held = json.loads(description)
    for part in path.split("."):
        held = held[part]
    return held


def edited(description: str, path: str, value: Any) -> str:
    """A trial's JSON with another value in one place."""
    held = json.loads(description)
    *parts, last = path.split(".")
    inner = held
    for part in parts:
        inner = inner[part]
    inner[last] = value
    return json.dumps(held)


SHARE = st.floats(0, 0.99, allow_nan=False)
ABOVE = st.floats(1e-9, 1e9, allow_nan=False)
COUNT = st.integers(1, 10**6)
#: Every field that a change can reach, but for those that another one follows, and values that are right for it.
FIELD_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "optimiser.steps": COUNT,
    "optimiser.name": st.sampled_from(("adam", "adamw", "sgd")),
    "optimiser.lr": ABOVE,
    "optimiser.schedule": st.sampled_from(("constant", "plateau", "linear", "cosine", "drop", "one-cycle")),
    "optimiser.warmup": st.integers(0, 20),
    "optimiser.patience": st.integers(0, 99),
    "optimiser.factor": st.floats(0.01, 0.99),
    "optimiser.floor": st.floats(0, 1),
    "optimiser.decay_from": SHARE,
    "optimiser.betas": st.lists(SHARE, min_size=2, max_size=2),
    "optimiser.eps": ABOVE,
    "optimiser.momentum": SHARE,
    "optimiser.weight_decay": st.floats(0, 10),
    "optimiser.clip": st.none() | ABOVE,
    "data.samples": st.integers(6, 10**9),
    "data.batch": st.integers(1, 24),
    "data.fresh": st.booleans(),
    "data.lengths": st.lists(st.integers(1, 5), max_size=4),
    "data.options.low": st.floats(-9, 0),
    "data.options.length": st.integers(1, 5),
    "evaluation.samples": COUNT,
    "evaluation.every": st.integers(0, 99),
    "precision": st.sampled_from(("float32", "tf32", "bf16", "float64")),
    "task_options.cumulative": st.booleans(),
    "model.layers": st.integers(1, 9),
    "model.embed_dim": st.integers(1, 9).map(lambda half: 2 * half),
    "model.heads": st.sampled_from((1, 2, 3, 6)),
    "model.hidden_dim": st.integers(1, 9),
    "model.mlp_layers": st.integers(2, 4),
    "model.bias": st.booleans(),
    "model.symmetry": st.sampled_from((["scale"], ["scale", "shift"], ["shift"])),
    "model.in_dim": st.integers(1, 3),
    "model.out_dim": st.integers(1, 3),
}
CHANGES = st.sampled_from(sorted(FIELD_VALUES)).flatmap(lambda path: st.tuples(st.just(path), FIELD_VALUES[path]))
#: In the table below, or followed by another field, or not to be changed.
ELSEWHERE = {"model.length", "model.scratchpad", "model.encoding", "model.encoding_dim", "model.constants"}
ELSEWHERE |= {"model.constants_dim", "evaluation.sets", "data.options"}


def test_every_field_of_a_trial_is_in_the_table() -> None:
    fields = {
        f"{part}.{one.name}"
        for part in ("model", "optimiser", "data", "evaluation")
        for one in dataclasses.fields(getattr(TRIAL, part))
    }
    reached = {path for path in FIELD_VALUES if path.count(".") == 1 and not path.startswith("task_options")}
    assert fields == reached | ELSEWHERE


@settings(max_examples=100, deadline=None)
@given(CHANGES, st.booleans())
def test_a_change_sets_exactly_its_field(change: tuple[str, Any], blanks: bool) -> None:
    path, value = change
    text = json.dumps(value, separators=None if blanks else (",", ":"))
    changed = apply(TRIAL, parse([f"{path}={text}"]))
    oracle = Trial.from_json(edited(TRIAL.to_json(), path, value))
    assert changed.id == oracle.id
    wanted = TRIAL.differing() | {"seed": 0}
    found = changed.differing() | {"seed": 0}
    assert {part for part in found if found[part] != wanted.get(part)} <= {path.partition(".")[0]}
    assert (changed.id == TRIAL.id) == (oracle.id == TRIAL.id)
    for seed in (0, 3):
        assert changed.seeded(seed).id == oracle.seeded(seed).id


def test_a_changed_trial_has_the_id_of_one_that_is_written_by_hand() -> None:
    texts = ["optimiser.lr=1e-3", "optimiser.name=sgd", "data.samples=50", "model.layers=3", "precision=float32"]
    texts += ['evaluation.sets={"far": {"high": 6}}', "data.options.low=-4", "task_options.cumulative=false"]
    by_hand = Trial(
        task="sum",
        task_options={"cumulative": False},
        model=Positional(length=5, embed_dim=6, hidden_dim=7, layers=3),
        data=Data(samples=50, batch=6, options={"length": 5, "low": -4}),
        optimiser=Optimiser(steps=20, lr=1e-3, name="sgd"),
        evaluation=Evaluation(samples=11, sets={"far": {"high": 6}}),
    )
    assert apply(TRIAL, parse(texts)).id == by_hand.id
    assert apply(TRIAL, parse(reversed(texts))).id == by_hand.id


def test_all_changes_are_made_at_once() -> None:
    """Either alone is an error: 5 samples make no batch of 6, and no steps in a warm-up of 30."""
    changed = apply(TRIAL, {"data.samples": 5, "data.batch": 5, "optimiser.warmup": 30, "optimiser.steps": 40})
    assert (changed.data.samples, changed.data.batch) == (5, 5)
    with pytest.raises(PosattnError, match=r"--set data\.samples=5: batch=6 is larger than the data: samples=5"):
        apply(TRIAL, {"data.samples": 5})


def test_no_change_gives_the_trial_itself() -> None:
    assert apply(TRIAL, {}) is TRIAL


def test_test_sets_follow_the_data_in_what_they_do_not_set_differently() -> None:
    """Both have length 5 as the data does, whether that is spelled out or inherited; the far one has its own high."""
    spelled = small_trial(data={"options": {"length": 5, "high": 2.0}})
    inherited = small_trial(
        data={"options": {"length": 5, "high": 2.0}},
        evaluation={"sets": {"near": {}, "far": FAR}},
    )
    assert spelled.id == inherited.id
    for trial in (spelled, inherited):
        changed = apply(trial, {"data.options.length": 3, "data.options.high": 4.0})
        near, far = changed.test_sets
        assert near.options == {"length": 3, "high": 4.0}
        assert far.options == {"length": 3} | FAR
    assert apply(spelled, {"data.options.length": 3}).id == apply(inherited, {"data.options.length": 3}).id


# ---- models


@pytest.mark.parametrize(
    ("fields", "width"), [({"length": 7}, 8), ({"scratchpad": 0}, 5), ({"encoding": "binary"}, 3)], ids=str
)
def test_a_width_that_the_model_worked_out_is_worked_out_anew(fields: dict[str, Any], width: int) -> None:
    changed = apply(TRIAL, {f"model.{name}": value for name, value in fields.items()}).model
    assert isinstance(changed, Positional)
    usual: dict[str, Any] = {"length": 5, "embed_dim": 6, "hidden_dim": 7, "layers": 2}
    assert changed == Positional(**usual | fields)
    assert changed.encoding_dim == width


def test_a_width_that_was_given_stays() -> None:
    model = Positional(length=5, encoding="sinusoidal", encoding_dim=10)
    assert model.changed(length=8) == Positional(length=8, layers=4, encoding="sinusoidal", encoding_dim=10)
    assert Selector(length=30, encoding="one-hot").changed(length=40).to_json() == (
        Selector(length=40, encoding="one-hot").to_json()
    )


def test_lists_become_tuples() -> None:
    trial = dataclasses.replace(TRIAL, task="selection", task_options={}, model=FullyConnected(), data=Data())
    assert apply(trial, parse(["model.widths=[8,16]"])).model == FullyConnected(widths=(8, 16))


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """An architecture whose options are no fields, known in one test alone."""
    monkeypatch.setattr("posattn.nn.architecture.ARCHITECTURES", dict(ARCHITECTURES))

    @dataclass(frozen=True, kw_only=True)
    class Free(Architecture):
        options: dict[str, Any] = field(default_factory=dict)

        kind = "free"

        def changed(self, **fields: Any) -> "Free":
            return Free(options=self.options | fields)

        def parameters(self) -> dict[str, Any]:
            return {}

    return Free


def test_an_architecture_may_say_itself_what_can_change(free: type[Any]) -> None:
    trial = dataclasses.replace(TRIAL, model=free(options={"depth": 2}))
    changed = apply(trial, {"model.width": 64, "model.depth": 3})
    assert changed.model == free(options={"depth": 3, "width": 64})
    (depth, width) = described([Case(task="sum", arm="mine", trial=trial)], {"model.depth": 3, "model.width": 64})
    assert [str(depth), str(width)] == ["model.depth=3 (study: 2)", "model.width=64 (study: unset)"]


# ---- other kinds of trials


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(set(FIELDS) - {"data.options", "evaluation.sets"})), st.integers(1, 30))
@example("data.options.high", 3)
def test_a_language_trial_has_the_fields_that_tables_show_of_it(path: str, value: int) -> None:
    changed = apply(LANGUAGE, {path: value})
    described = edited(LANGUAGE.to_json(), path, value)
    steps = changed.epochs * -(-changed.samples // changed.batch)  # it follows from the others
    assert json.loads(changed.to_json()) == json.loads(edited(described, "optimiser.steps", steps))


def test_test_sets_of_a_language_trial_follow_its_data() -> None:
    spelled = dataclasses.replace(LANGUAGE, options={"high": 5.0}, sets={"near": {"high": 5.0}, "far": {"high": 9.0}})
    near, far = apply(spelled, {"data.options.high": 6.0}).test_sets
    assert (near.options, far.options) == ({"high": 6.0}, {"high": 9.0})


@pytest.mark.parametrize("path", ["optimiser.name", "precision", "model", "model.layers", "data", "lr"])
def test_what_a_language_trial_does_not_have_is_no_field(path: str) -> None:
    assert not has_field(LANGUAGE, path, 3)
    with pytest.raises(NoSuchField, match=rf"unknown field of a language model's trial '{path}'.*Known: data.samples,"):
        apply(LANGUAGE, {path: 3})


def test_what_is_computed_has_no_protocol() -> None:
    slope = Slope(T=6, q=2, d=3, lengths=(7,), subsets=(1,), kappa=0.5, eta=1.0, steps=4, every=2, drop_from=0.5,
                  factor=0.5)  # fmt: skip
    with pytest.raises(NoSuchField, match=r"--set steps=8: '.*' is not trained, leave it as it is"):
        apply(slope, {"steps": 8})


# ---- what is refused


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["optimiser.lr"], "--set optimiser.lr: write FIELD=VALUE, as optimiser.lr=1e-3."),
        (["optimiser.lr="], "--set optimiser.lr=: give a value, as optimiser.lr=1e-3, or null for none."),
        (["=3"], "--set =…: write the field as a dotted path, as optimiser.lr."),
        (["optimiser..lr=3"], "--set optimiser..lr=…: write the field as a dotted path, as optimiser.lr."),
        (["optimiser.lr=1", "optimiser.lr=2"], "--set optimiser.lr=2: optimiser.lr was set before. Set it once."),
        (["model.bias=False"], "--set model.bias=False: values are JSON, write false."),
        (["optimiser.clip=None"], "--set optimiser.clip=None: values are JSON, write null."),
        (["data.lengths=[8,16"], "--set data.lengths=[8,16: [8,16 is not JSON. Quote it for the shell, as 'data."),
        (['optimiser.name="sgd'], '--set optimiser.name="sgd: "sgd is not JSON.'),
        (["seed=3"], "--set seed=…: a protocol has many seeds: say how many with --seeds N"),
        (["task=sort"], "--set task=…: a change leaves the task as it is: name another one in its own place."),
        (["task_version=2"], "--set task_version=…: it is the version of the task that is registered."),
        (["optimizer.lr=1"], "unknown field 'optimizer': did you mean 'optimiser'? Known: model, optimiser, data"),
        (["lr=1"], "Known: model, optimiser, data, evaluation, task_options, precision. Is it optimiser.lr?"),
        (["samples=1"], "Is it data.samples or evaluation.samples?"),
        (["optimiser.rl=1"], "unknown field 'optimiser.rl': did you mean 'optimiser.lr'? Known: optimiser.steps, opti"),
        (["model.layres=3"], "unknown field of the positional model 'layres': did you mean 'layers'? Known: length, "),
        (["data.options.lwo=3"], "task 'sum' 'data.options.lwo': did you mean 'data.options.low'? Known: data.opt"),
        (["task_options.cumulativ=true"], "'task_options.cumulativ': did you mean 'task_options.cumulative'?"),
        (["task_options.cumulative.x=true"], "--set task_options.cumulative.x=true: task_options.cumulative has no"),
        (["model=standard"], "model is made of fields: set one of them, model.FIELD=VALUE."),
        (["optimiser.lr.base=3"], "--set optimiser.lr.base=3: optimiser.lr has no fields, set it as a whole"),
        (["evaluation.sets.far=3"], "--set evaluation.sets.far=3: evaluation.sets has no fields, set it as a whole"),
        (['data.options={"length":4}', "data.options.low=1"], "data.options and data.options.low are both set"),
        (["optimiser.lr=fast"], "--set optimiser.lr=fast: lr='fast': it must be a finite number."),
        (["optimiser.lr=NaN"], "lr='NaN': it must be a finite number."),
        (["optimiser.lr=1e999"], "lr=inf: it must be a finite number."),
        (["optimiser.steps=2.5"], "steps=2.5: it must be a whole number."),
        (["optimiser.name=sdg"], "unknown optimiser 'sdg': did you mean 'sgd'?"),
        (["optimiser.betas=[0.9]"], "betas=(0.9,): Adam keeps two running means"),
        (["model.bias=no"], "bias='no': it must be True or False."),
        (["data.options=3"], "options of the data: 3 is an int, and it must be a dict."),
        (["data.lengths=" + "[" * 100_000], " is not JSON."),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("as_users_run_it")
def test_a_mistake_is_named_with_its_reason_and_a_way_out(texts: list[str], said: str) -> None:
    with pytest.raises(PosattnError, match=re.escape(said)):
        apply(TRIAL, parse(texts))


@pytest.mark.parametrize(
    "value", ["1e-3,1e-2", "sgd,adam", "[8,16],[8]", '"a,b","c"', '{"a":1},{}', "[1,[2,3]],4", "1,"]
)
def test_a_comma_outside_brackets_and_quotes_is_several_values(value: str) -> None:
    with pytest.raises(
        PosattnError, match=r"several values\. A field has one value here: run the command once for each"
    ):
        parse([f"optimiser.lr={value}"])


@pytest.mark.parametrize("changes", [3, ["optimiser.lr=3"], {3: 4}, {"": 4}, {"optimiser.lr": object()}])
@pytest.mark.usefixtures("as_users_run_it")
def test_changes_that_are_no_values_by_field_are_refused(changes: Any) -> None:
    with pytest.raises(PosattnError):
        apply(TRIAL, changes)


# ---- how changes are written

WORDS = st.text(max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(WORDS, some, max_size=3),
    max_leaves=6,
)


@given(VALUES)
@example("1")
@example("a,b")
@example("None")
@example("NaN")
@example("")
def test_what_is_written_is_read_again(value: Any) -> None:
    changes = settled({"model.tag": value})
    assert parse([written("model.tag", changes["model.tag"])]) == changes


@given(st.lists(VALUES, min_size=2, max_size=2))
@example(["A", "a"])
@example([1, "1"])
@example(["x" * 100, "x" * 101])
@example([[8, 16], "8-16"])
def test_other_changes_have_other_names_that_every_file_system_holds(values: list[Any]) -> None:
    first, second = ({"model.tag": value} for value in values)
    same = written("model.tag", settled(first)["model.tag"]) == written("model.tag", settled(second)["model.tag"])
    assert (name(first).lower() == name(second).lower()) == same
    for one in (name(first), name(second)):
        assert re.fullmatch(r"[a-z0-9_.=+-]+", one)
        assert len(one) <= LONGEST_NAME


def test_names_can_be_read() -> None:
    assert name(parse(["optimiser.lr=1e-3", "optimiser.name=sgd"])) == "optimiser.lr=0.001+optimiser.name=sgd"
    assert re.fullmatch(r"data\.lengths=8-16-[0-9a-f]{8}", name({"data.lengths": [8, 16]}))
    assert re.fullmatch(r"model\.tag=wide-open-[0-9a-f]{8}", name({"model.tag": "Wide/Open"}))
