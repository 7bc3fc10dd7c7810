"""The ids of all trials of all studies are those they had: results that somebody has are found again."""

import hashlib
import json
from pathlib import Path

import pytest

from posattn import studies

#: By study and preset, a hash of the ids of every case with seed 1. Never to be changed but by a new schema, or for a
#: study whose trials have become others.
IDS = json.loads((Path(__file__).parent / "ids.json").read_text())


def ids_of(name: str, preset: str) -> str:
    study = studies.get(name)
    ids = [case.seeded(1).id for task in study.tasks for case in study.cases(task, preset)]
    return hashlib.sha256(" ".join(ids).encode()).hexdigest()[:16]


def test_the_record_has_every_study_and_preset():
    assert IDS.keys() == studies.REGISTRY.keys()
    assert all(list(presets) == list(studies.PRESETS) for presets in IDS.values())


@pytest.mark.parametrize("name", IDS)
def test_a_study_keeps_its_ids(name):
    assert {preset: ids_of(name, preset) for preset in IDS[name]} == IDS[name]
