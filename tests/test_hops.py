"""How far a reader has to go to follow a call: counted by benchmarks/hops.py, in a process without runtime checks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.xdist_group("hops")  # they share a run


@pytest.fixture(scope="module")
def hops() -> dict[str, dict[str, int]]:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "hops.py", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_a_models_forward_pass_is_ten_functions_in_three_files(hops):
    assert hops["model"]["functions"] <= 10
    assert hops["model"]["files"] <= 3


def test_a_study_from_the_command_to_the_report_passes_few_functions_and_files(hops):
    # The compiler, which makes one of the study's models, is a passage of its own. Of these functions, 34 in
    # four files put the answer into words and draw up the table at the end, which a run did not do before, 12 in two
    # files fold the matrices of all replicas first and then take their samples in pieces, and two give a layer's
    # matrices to this form and to that of a GPU.
    assert hops["run"]["functions_outside_compile"] <= 464
    assert hops["run"]["files_outside_compile"] <= 88
    assert hops["run"]["functions"] > 200  # that the run was followed to its end
