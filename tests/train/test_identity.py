"""Ids that last: they hash what differs from the defaults, and older trials are read to the ids they have now."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from posattn import PosattnError, studies
from posattn.nn import GPTArchitecture, Positional
from posattn.studies.positional.compiled_programs import ExactTrial
from posattn.studies.selection.closed_form import Floor
from posattn.train import Data, Evaluation, Optimiser, Trial, identity
from posattn.train.language.trial import LanguageTrial

#: A trial of every kind, with every kind of model, as schema 1 wrote it: its id then, and its id now.
OLDER = json.loads((Path(__file__).parent / "schema1.json").read_text())

pytestmark = pytest.mark.usefixtures("as_users_run_it")

assert studies.REGISTRY  # their kinds of trials are among them


#: The same classes for arguments of types that the annotations do not have.
free: Any = SimpleNamespace(
    Data=Data, Evaluation=Evaluation, LanguageTrial=LanguageTrial, Optimiser=Optimiser, Positional=Positional
)


def digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def canonical(held: Any) -> str:
    return json.dumps(held, sort_keys=True, separators=(",", ":"))


def trial(**changes: Any) -> Trial:
    usual: dict[str, Any] = {"task": "sum", "model": Positional(length=5), "optimiser": Optimiser(steps=3)}
    return Trial(**usual | changes)


def options(of: Any) -> dict[str, Any]:
    """What each test set is drawn with."""
    return {one.name: one.options for one in of.test_sets}


def test_the_id_hashes_what_differs_from_the_defaults():
    plain = (
        '{"model":{"encoding_dim":6,"kind":"positional","length":5},"optimiser":{"steps":3},"schema":2,"task":"sum"}'
    )
    assert trial().id == digits(plain)
    changed = trial(
        seed=4,
        optimiser=Optimiser(steps=3, lr=0.5, betas=(0.5, 0.75)),
        data=Data(options={"length": 5}),
        evaluation=Evaluation(sets={"far": {"high": 6.0}}, every=2),
    )
    assert changed.id == digits(
        '{"data":{"options":{"length":5}},"evaluation":{"every":2,"sets":{"far":{"high":6}}},'
        '"model":{"encoding_dim":6,"kind":"positional","length":5},'
        '"optimiser":{"betas":[0.5,0.75],"lr":0.5,"steps":3},"schema":2,"seed":4,"task":"sum"}'
    )


def test_all_kinds_of_trials_are_identified_alike():
    floor = Floor(width=4, T=8, q=2, d=2)
    assert floor.id == digits('{"T":8,"d":2,"kind":"floor","q":2,"schema":2,"width":4}')
    language = LanguageTrial(task="mixed-min", samples=5, test_samples=7)
    assert language.id == digits('{"kind":"language","samples":5,"schema":2,"task":"mixed-min","test_samples":7}')
    exact = ExactTrial(task="sum", length=4, domain=2.0, samples=9)
    assert exact.id == digits('{"domain":2,"kind":"compiled","length":4,"samples":9,"schema":2,"task":"sum"}')


@dataclass(frozen=True, kw_only=True)
class LaterOptimiser(Optimiser):
    nesterov: bool = False


@dataclass(frozen=True, kw_only=True)
class LaterData(Data):
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaterEvaluation(Evaluation):
    quantiles: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaterGpt(GPTArchitecture):
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LaterTrial(Trial):
    average: float | None = None


@dataclass(frozen=True, kw_only=True)
class LaterLanguageTrial(LanguageTrial):
    rank: int = 0


@dataclass(frozen=True, kw_only=True)
class LaterFloor(Floor):
    noise: float = 0.0


@pytest.mark.parametrize(
    ("now", "later", "other"),
    [
        (
            trial(optimiser=Optimiser(steps=3, lr=0.5)),
            trial(optimiser=LaterOptimiser(steps=3, lr=0.5)),
            trial(optimiser=LaterOptimiser(steps=3, lr=0.5, nesterov=True)),
        ),
        (trial(), trial(data=LaterData()), trial(data=LaterData(weights=(0.5,)))),
        (trial(), trial(evaluation=LaterEvaluation()), trial(evaluation=LaterEvaluation(quantiles=(0.5,)))),
        (trial(model=GPTArchitecture()), trial(model=LaterGpt()), trial(model=LaterGpt(dropout=0.5))),
        (
            trial(),
            LaterTrial(task="sum", model=Positional(length=5), optimiser=Optimiser(steps=3)),
            LaterTrial(task="sum", model=Positional(length=5), optimiser=Optimiser(steps=3), average=0.5),
        ),
        (
            LanguageTrial(task="mixed-min", samples=5, test_samples=7),
            LaterLanguageTrial(task="mixed-min", samples=5, test_samples=7),
            LaterLanguageTrial(task="mixed-min", samples=5, test_samples=7, rank=1),
        ),
        (
            Floor(width=4, T=8, q=2, d=2),
            LaterFloor(width=4, T=8, q=2, d=2),
            LaterFloor(width=4, T=8, q=2, d=2, noise=1),
        ),
    ],
)
def test_a_field_added_with_a_default_leaves_every_id_as_it_is(now, later, other):
    assert later.id == now.id
    assert other.id != now.id


def test_an_inherited_option_of_a_test_set_may_be_spelled_out_or_not():
    data = Data(options={"length": 16, "low": -5, "high": 5})
    short, long = ({"in": {}, "far": {"high": 9}}, {"in": {"length": 16, "low": -5.0}, "far": {"low": -5, "high": 9}})
    first, second = (trial(data=data, evaluation=Evaluation(sets=sets)) for sets in (short, long))
    assert first.id == second.id
    assert options(first)["far"] == options(second)["far"] == {"length": 16, "low": -5, "high": 9}
    assert first.id != trial(data=data, evaluation=Evaluation(sets=short | {"in": {"high": 6}})).id
    read = [
        LanguageTrial(task="mixed-min", samples=5, test_samples=7, options={"high": 5.0}, sets=sets)
        for sets in ({"in": {}}, {"in": {"high": 5}})
    ]
    assert read[0].id == read[1].id
    assert options(read[0])["in"] == {"high": 5}


@pytest.mark.parametrize("held", OLDER, ids=lambda held: held["was"])
def test_a_trial_of_schema_1_is_read_to_the_id_it_has_now(held):
    text = canonical(held["trial"])
    assert digits(text) == held["was"]
    found = identity.read(text)
    assert found.id == held["is"]
    again = identity.read(found.to_json())
    assert (again, again.id) == (found, found.id)
    assert json.loads(found.to_json())["schema"] == 2


def test_the_older_trials_are_of_every_kind_and_of_every_model():
    kinds = {held["trial"].get("kind", "trained") for held in OLDER}
    assert kinds == {"trained", "language", "compiled", "population descent", "predicted slope", "floor"}
    models = {held["trial"]["model"]["kind"] for held in OLDER if "kind" not in held["trial"]}
    assert models >= {
        "positional", "standard", "hybrid", "mixed-positional", "mixed-standard", "gpt", "selector", "connected",
        "positional-placed", "positional-exact",
    }  # fmt: skip


def test_test_sets_of_schema_1_inherit_nothing():
    (held,) = [held["trial"] for held in OLDER if "in" in held["trial"].get("evaluation", {}).get("sets", {})]
    assert held["data"]["options"] == {"length": 16, "low": -5, "high": 5}
    assert held["evaluation"]["sets"] == {"in": {}, "far": {"high": 9.5}}
    found = Trial.from_json(canonical(held))
    assert options(found)["in"] == {"length": 8, "low": -2, "high": 2}  # what `sum` draws when nothing is said
    assert options(found)["far"] == {"length": 8, "low": -2, "high": 9.5}
    now = Trial.from_json(canonical(held | {"schema": 2}))
    assert options(now)["in"] == {"length": 16, "low": -5, "high": 5}
    assert now.id != found.id


@pytest.mark.parametrize(
    "of", [trial(), LanguageTrial(task="mixed-min", samples=5, test_samples=7), Floor(width=4, T=8, q=2, d=2)]
)
def test_a_newer_schema_or_an_unknown_entry_is_an_error(of):
    held = json.loads(of.to_json())
    with pytest.raises(PosattnError, match=r"newer version of posattn \(schema 3, this one reads up to 2\): install"):
        identity.read(canonical(held | {"schema": 3}))
    with pytest.raises(PosattnError, match="schema 'two' of a trial: it must be a whole number from 1 to 2"):
        identity.read(canonical(held | {"schema": "two"}))
    with pytest.raises(PosattnError, match=r"not the description of a trial .*average"):
        identity.read(canonical(held | {"average": 0.5}))
    with pytest.raises(PosattnError, match="unknown kind of trial 'flor'"):
        identity.read(canonical(held | {"kind": "flor"}))


@pytest.mark.parametrize("bomb", ["[" * 200_000, '{"a":' * 200_000, '{"task":' + "[" * 900 + "]" * 900 + "}"])
def test_nesting_is_no_way_to_crash(bomb):
    with pytest.raises(PosattnError, match="not the description of a trial"):
        Trial.from_json(bomb)
    with pytest.raises(PosattnError, match="not the description of a trial"):
        identity.read(bomb)


def test_options_nested_without_end_are_refused():
    options: dict[str, Any] = {}
    options["again"] = options
    with pytest.raises(PosattnError, match="again is nested more than 20 levels deep: make it flat"):
        Data(options=options)


def test_numpy_scalars_are_numbers():
    found = trial(
        optimiser=free.Optimiser(steps=np.int64(5), lr=np.float32(0.5), betas=np.array([0.5, 0.75]), clip=np.int8(1)),
        data=free.Data(
            samples=np.int32(60), batch=np.uint8(10), options={"low": np.float64(-2), "length": np.int64(5)},
            lengths=np.arange(2, 4), fresh=np.bool_(True),
        ),
        evaluation=free.Evaluation(samples=np.int64(7), sets={"far": {"high": np.float16(6)}}, every=np.int8(2)),
        model=free.Positional(length=np.int64(5), bias=np.bool_(False)),
        seed=np.int64(3),
    )  # fmt: skip
    plain = trial(
        optimiser=Optimiser(steps=5, lr=0.5, betas=(0.5, 0.75), clip=1.0),
        data=Data(samples=60, batch=10, options={"low": -2, "length": 5}, lengths=(2, 3), fresh=True),
        evaluation=Evaluation(samples=7, sets={"far": {"high": 6}}, every=2),
        model=Positional(length=5, bias=False),
        seed=3,
    )
    assert found == plain
    assert (found.to_json(), found.id) == (plain.to_json(), plain.id)
    assert type(found.optimiser.steps) is type(found.seed) is int
    assert type(found.optimiser.lr) is float
    read = free.LanguageTrial(task="mixed-min", samples=np.int64(5), test_samples=7, lr=np.float64(0.5))
    assert read.id == LanguageTrial(task="mixed-min", samples=5, test_samples=7, lr=0.5).id


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: free.Data(options=["length"]), r"options of the data: \('length',\) is a tuple, and it must be"),
        (lambda: free.Data(options=5), "options of the data: 5 is an int, and it must be a dict"),
        (lambda: free.Data(lengths="23"), "lengths='23': give a list of whole numbers"),
        (lambda: free.Data(lengths=5), "lengths=5: give a list of whole numbers"),
        (lambda: free.Data(options={"low": object()}), "low is an object: a trial holds numbers, text, True, False"),
        (lambda: free.Evaluation(sets=["far"]), r"sets of the evaluation: \('far',\) is a tuple, and it must be"),
        (lambda: free.Evaluation(sets={"far": 3}), "options of the test set 'far': 3 is an int, and it must be a dict"),
        (lambda: free.Optimiser(steps=3, betas="ab"), "betas='ab': give two numbers"),
        (lambda: free.Optimiser(steps=3, betas=("a", "b")), r"betas\[0\]='a': it must be a finite number"),
        (lambda: free.Optimiser(steps=3, clip="1"), "clip='1': it must be a finite number"),
        (lambda: free.Optimiser(steps=3, name=5), "unknown optimiser 5"),
        (lambda: free.Optimiser(steps=True), "steps=True: it must be a whole number"),
        (lambda: trial(seed=np.bool_(True)), "seed=True: it must be a whole number"),
        (lambda: trial(optimiser={"steps": 3}), "optimiser is a dict: pass a posattn.train.Optimiser"),
        (lambda: trial(data=None), "data is a NoneType: pass a posattn.train.Data"),
        (lambda: trial(task_options=[1]), r"task_options of the task: \(1,\) is a tuple, and it must be a dict"),
        (lambda: trial(task=["sum"]), r"unknown task \('sum',\)"),
        (lambda: trial(precision=32), "unknown precision 32"),
    ],
)  # fmt: skip
def test_wrong_types_are_our_error(make, message):
    with pytest.raises(PosattnError, match=message):
        make()


@pytest.mark.parametrize(
    "part", ["data", "evaluation", "optimiser", "model", "task", "task_options", "seed", "precision"]
)
@pytest.mark.parametrize("value", [None, 3.5, "x", [1], {"x": {"y": 1}}, True])
def test_text_with_wrong_types_is_our_error(part, value):
    with pytest.raises(PosattnError):
        Trial.from_json(canonical(json.loads(trial().to_json()) | {part: value}))


def test_replacing_the_data_leaves_what_a_test_set_names():
    named = trial(data=Data(options={"length": 8}), evaluation=Evaluation(sets={"in": {"length": 8}}))
    assert replace(named, data=Data(options={"length": 16})).test_sets[0].options == {"length": 8}
