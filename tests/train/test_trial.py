"""A trial is a value: its JSON says all about it, and its id is a hash of that, equal on every machine."""

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posattn import PosattnError
from posattn.nn import GPTArchitecture, Hybrid, MixedPositional, MixedStandard, Positional, Standard
from posattn.train import Data, Evaluation, Optimiser, Trial

from .small import small_trial

pytestmark = pytest.mark.usefixtures("as_users_run_it")

MODELS = [
    Positional(length=5, layers=None, encoding="stochastic", encoding_dim=3, constants="binary"),
    Positional(length=16, bias=False, mlp_layers=3),
    Standard(rotary=True, append_encoding=False),
    Hybrid(heads=4),
    MixedPositional(),
    MixedStandard(layers=1),
    GPTArchitecture(layers=2, positional=True),
]

#: A trial, and its canonical JSON written out by hand: keys sorted, no blanks, whole numbers without a point.
TRIAL = Trial(
    task="sum",
    task_options={"cumulative": False},
    model=Positional(length=5, embed_dim=6, hidden_dim=7, layers=2),
    optimiser=Optimiser(steps=200, lr=0.5, clip=1.0),
    data=Data(samples=60, batch=10, options={"low": -2.0, "high": 2.0, "length": 5}),
    evaluation=Evaluation(sets={"far": {"length": 5, "high": 6.5, "avoid": (-2.0, 2.0)}}),
    seed=3,
)
TEXT = (
    '{"data":{"batch":10,"fresh":false,"lengths":[],"options":{"high":2,"length":5,"low":-2},"samples":60},'
    '"evaluation":{"every":0,"samples":1000,"sets":{"far":{"avoid":[-2,2],"high":6.5,"length":5}}},'
    '"model":{"bias":true,"constants":null,"constants_dim":null,"embed_dim":6,"encoding":"one-hot","encoding_dim":6,'
    '"heads":2,"hidden_dim":7,"in_dim":1,"kind":"positional","layers":2,"length":5,"mlp_layers":2,"out_dim":1,'
    '"scratchpad":1},'
    '"optimiser":{"betas":[0.9,0.999],"clip":1,"decay_from":0,"eps":1e-08,"factor":0.9,"floor":1e-06,"lr":0.5,'
    '"momentum":0,"name":"adam","patience":50,"schedule":"constant","steps":200,"warmup":0,"weight_decay":0},'
    '"precision":"float32","schema":2,"seed":3,"task":"sum","task_options":{"cumulative":false}}'
)
#: What in it differs from the defaults. `encoding_dim` is worked out by the class, and counts as given.
SHORT = (
    '{"data":{"batch":10,"options":{"high":2,"length":5,"low":-2},"samples":60},'
    '"evaluation":{"sets":{"far":{"avoid":[-2,2],"high":6.5}}},'
    '"model":{"embed_dim":6,"encoding_dim":6,"hidden_dim":7,"kind":"positional","layers":2,"length":5},'
    '"optimiser":{"clip":1,"lr":0.5,"steps":200},"schema":2,"seed":3,"task":"sum","task_options":{"cumulative":false}}'
)
ID = "af7c0ccc5e325ce8"  # printf %s "$SHORT" | sha256sum | head -c 16


def refused(message: str) -> Any:
    return pytest.raises(PosattnError, match=re.escape(message))


def test_the_canonical_json_is_the_one_written_by_hand():
    assert TRIAL.to_json() == TEXT


def test_the_id_is_the_start_of_the_hash_of_that_text():
    assert hashlib.sha256(SHORT.encode()).hexdigest().startswith(ID)
    assert len(ID) == 16
    assert TRIAL.id == ID


def test_ids_do_not_depend_on_the_process():
    program = f"from posattn.train import Trial; print(Trial.from_json({TEXT!r}).id)"
    environment = os.environ | {"PYTHONHASHSEED": "31337", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{ID}\n"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_json_gives_back_the_trial_for_every_kind_of_model(model):
    trial = small_trial(model=model, seed=5, data={"lengths": (2, 3)})
    again = Trial.from_json(trial.to_json())
    assert again == trial
    assert (again.to_json(), again.id) == (trial.to_json(), trial.id)
    assert type(again.model) is type(model)


numbers = st.integers(-(10**25), 10**25) | st.floats(allow_nan=False, allow_infinity=False)
options = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | numbers | st.text() | st.lists(numbers))


@settings(deadline=None)
@given(options=options)
def test_json_gives_back_whatever_options_a_trial_has(options):
    trial = small_trial(data={"options": options})
    assert Trial.from_json(trial.to_json()) == trial


@settings(deadline=None)
@given(value=st.integers(-(2**70), 2**70))
def test_equal_numbers_have_equal_ids_however_they_are_written(value):
    whole, real = (small_trial(data={"options": {"low": low}}) for low in (int(float(value)), float(value)))
    assert whole == real
    assert whole.id == real.id


def test_equal_trials_have_equal_ids_however_they_are_written():
    assert small_trial(data={"options": {"low": -2, "high": 2}}) == small_trial(
        data={"options": {"high": 2.0, "low": -2.0}}
    )
    variants = [
        small_trial(
            data={"options": options, "lengths": lengths},
            optimiser={"lr": lr, "betas": betas},
            evaluation={"sets": sets},
        )
        for options, lengths, lr, betas, sets in [
            ({"low": -2, "avoid": [0, 1]}, [2, 3], 1, [0.5, 0.75], {"a": {"low": 0}, "b": {"avoid": [1, 2]}}),
            (
                {"avoid": (0.0, 1), "low": -2.0},
                (2, 3),
                1.0,
                (0.5, 0.75),
                {"b": {"avoid": (1, 2.0)}, "a": {"low": -0.0}},
            ),
        ]
    ]
    assert variants[0] == variants[1]
    assert variants[0].id == variants[1].id


def test_a_change_in_any_field_changes_the_id():
    changes: dict[str, dict[str, Any]] = {
        "optimiser": {
            "steps": 201, "name": "sgd", "lr": 0.25, "schedule": "cosine", "warmup": 5, "patience": 2, "factor": 0.5,
            "floor": 0.0, "decay_from": 0.5, "betas": (0.9, 0.99), "eps": 1e-7, "momentum": 0.5, "weight_decay": 0.1,
            "clip": None,
        },
        "data": {"samples": 61, "batch": 9, "options": {"length": 5}, "fresh": True, "lengths": (3,)},
        "evaluation": {"samples": 999, "sets": {}, "every": 7},
    }  # fmt: skip
    whole = {"task": "min", "model": Positional(length=5), "precision": "float64", "seed": 4, "task_options": {}}
    whole |= {"task_version": 2}
    changed = [dataclasses.replace(TRIAL, **{name: value}) for name, value in whole.items()]
    for name, fields in changes.items():
        part = getattr(TRIAL, name)
        assert fields.keys() == {field.name for field in dataclasses.fields(part)}
        changed += [
            dataclasses.replace(TRIAL, **{name: dataclasses.replace(part, **{f: v})}) for f, v in fields.items()
        ]
    assert whole.keys() | changes.keys() == {field.name for field in dataclasses.fields(TRIAL)}
    assert len({trial.id for trial in (TRIAL, *changed)}) == 1 + len(changed)


def test_what_the_caller_does_to_a_dict_later_changes_no_trial():
    options = {"length": 5, "avoid": [0, 1]}
    trial = small_trial(data={"options": options}, evaluation={"sets": {"far": options}})
    before = trial.to_json()
    options["length"] = 6
    options["avoid"].append(2)
    assert trial.to_json() == before


@pytest.mark.parametrize(
    ("part", "fields", "message"),
    [
        (Optimiser, {"steps": 0}, "steps=0: train for at least one step"),
        (Optimiser, {"steps": -3}, "steps=-3: train for at least one step"),
        (Optimiser, {"steps": 2.5}, "steps=2.5: it must be a whole number"),
        (Optimiser, {"lr": -1e-3}, "lr=-0.001: a learning rate is above 0"),
        (Optimiser, {"lr": 0}, "lr=0: a learning rate is above 0"),
        (Optimiser, {"lr": float("nan")}, "lr=nan: it must be a finite number"),
        (Optimiser, {"lr": float("inf")}, "lr=inf: it must be a finite number"),
        (Optimiser, {"lr": 10**400}, "lr=1e+400 or so: it must be a finite number"),
        (Optimiser, {"lr": 10**5000}, "lr=1e+5000 or so: it must be a finite number"),
        (Optimiser, {"clip": -(10**400)}, "clip=-1e+400 or so: it must be a finite number"),
        (Optimiser, {"betas": (0.9, 10**400)}, "betas[1]=1e+400 or so: it must be a finite number"),
        (Optimiser, {"steps": 10**5000}, "steps=1e+5000 or so: it is larger than"),
        (Optimiser, {"lr": "1e-3"}, "lr='1e-3': it must be a finite number"),
        (Optimiser, {"name": "adamm"}, "unknown optimiser 'adamm': did you mean 'adam'? Known: adam, adamw, sgd"),
        (Optimiser, {"schedule": "cosin"}, "unknown schedule 'cosin': did you mean 'cosine'? Known: constant, plateau"),
        (Optimiser, {"warmup": 11}, "warmup=11: it must lie in 0 … steps=10"),
        (Optimiser, {"warmup": -1}, "warmup=-1: it must lie in 0 … steps=10"),
        (Optimiser, {"decay_from": 1.0}, "decay_from=1.0: it is a share of all steps, in [0, 1)"),
        (Optimiser, {"factor": 1.0}, "factor=1.0: what a schedule shrinks the rate by lies in (0, 1)"),
        (Optimiser, {"patience": -1}, "patience=-1: it is 0 or more"),
        (Optimiser, {"floor": -1e-6}, "floor=-1e-06: it is 0 or more"),
        (Optimiser, {"weight_decay": -0.1}, "weight_decay=-0.1: it is 0 or more"),
        (Optimiser, {"weight_decay": float("inf")}, "weight_decay=inf: it must be a finite number"),
        (Optimiser, {"clip": 0.0}, "clip=0.0: a norm to clip at is above 0"),
        (Optimiser, {"betas": (0.9, 1.0)}, "betas=(0.9, 1.0): Adam keeps two running means"),
        (Optimiser, {"betas": (0.9,)}, "betas=(0.9,): Adam keeps two running means"),
        (Optimiser, {"momentum": 1.0}, "momentum=1.0: a share of the last step, in [0, 1)"),
        (Optimiser, {"eps": 0.0}, "eps=0.0: it keeps Adam from dividing by 0, so above 0"),
        (Data, {"batch": 0}, "batch=0: a batch has at least one sample"),
        (Data, {"samples": 99, "batch": 100}, "batch=100 is larger than the data: samples=99. Use a smaller batch"),
        (Data, {"samples": 99, "batch": 50, "lengths": (1, 2)}, "samples=99 over 2 lengths leave 49 for each"),
        (Data, {"samples": 1e4}, "samples=10000.0: it must be a whole number"),
        (Data, {"lengths": ("2",)}, "length='2': it must be a whole number"),
        (Data, {"fresh": "no"}, "fresh='no': it must be True or False"),
        (Evaluation, {"samples": 0}, "evaluation samples=0: score at least one sample"),
        (Evaluation, {"every": -1}, "evaluation every=-1: a number of steps, or 0 for the end alone"),
        (Evaluation, {"sets": {"train": {}}}, "a test set is called 'train'"),
        (Trial, {"task": "sortt"}, "unknown task 'sortt': did you mean 'sort'?"),
        (Trial, {"task_options": {"cumulativ": True}}, "did you mean 'cumulative'?"),
        (Trial, {"precision": "fp32"}, "unknown precision 'fp32': did you mean 'tf32'?"),
        (Trial, {"precision": "float"}, "Known: float32, tf32, bf16, float64"),
        (Trial, {"seed": True}, "seed=True: it must be a whole number"),
        (Trial, {"model": "positional"}, "model is a str: pass what describes one, as posattn.nn.Positional(length=8)"),
        (Trial, {"model": Positional(encoding="given", encoding_dim=2)}, "encoding='given' of the model stands for a"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused(part, fields, message):
    needed = {Optimiser: {"steps": 10}, Trial: {"task": "sum", "model": MODELS[0], "optimiser": Optimiser(steps=1)}}
    with refused(message):
        part(**needed.get(part, {}) | fields)


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "null", "3", '"trial"', "{}", TEXT[:-1], '{"task":"sum"}'])
def test_text_that_describes_no_trial_is_refused(text):
    with refused(f"{text[:80]!r}. Trial.to_json writes one.") as caught:
        Trial.from_json(text)
    assert str(caught.value).startswith("not the description of a trial (")


def test_an_entry_that_a_trial_does_not_have_is_named():
    with refused("unexpected keyword argument 'sed'"):
        Trial.from_json(TEXT.replace('"seed"', '"sed"'))
    with refused("unexpected keyword argument 'stepz'"):
        Trial.from_json(TEXT.replace('"steps"', '"stepz"'))
    with refused("unknown kind of model 'posittional': did you mean 'positional'?"):
        Trial.from_json(TEXT.replace('"kind":"positional"', '"kind":"posittional"'))
    with refused("lr=1e+400 or so: it must be a finite number"):
        Trial.from_json(json.dumps(json.loads(TEXT) | {"optimiser": {"steps": 3, "lr": 10**400}}))
    with refused("lr=-1: a learning rate is above 0"):
        Trial.from_json(json.dumps(json.loads(TEXT) | {"optimiser": {"steps": 3, "lr": -1}}))
