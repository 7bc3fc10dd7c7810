"""What the page on many machines says is what the cost model gives, and the files to start clusters are well-formed."""

import importlib.util
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def cost() -> Any:
    spec = importlib.util.spec_from_file_location("cluster_cost", ROOT / "benchmarks" / "cluster_cost.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["cluster_cost"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_models_table(cost: Any) -> None:
    page = (ROOT / "docs" / "scale.md").read_text()
    assert "\n".join(cost.table()) in page


def test_the_model_meets_the_study_that_it_is_anchored_on(cost: Any) -> None:
    assert cost.seconds(cost.WORKS[0], 1) == pytest.approx(20 * 60 + cost.START_UP, rel=0.05)


def test_more_gpus_are_never_slower_than_stragglers_make_them_and_never_below_the_floor(cost: Any) -> None:
    for work in cost.WORKS:
        floor = cost.START_UP + work.steps * (cost.LAUNCH + cost.EACH) / 1000
        for gpus in (1, 2, 10, 100, 1000):
            assert cost.seconds(work, gpus) >= floor
            useful = work.steps * (cost.LAUNCH + cost.EACH * math.ceil(work.replicas / gpus)) / 1000
            assert cost.seconds(work, gpus) < cost.START_UP + 1.2 * useful
        at = cost.saturated(work)
        useful = work.steps * cost.EACH * math.ceil(work.replicas / at) / 1000
        assert useful < cost.seconds(work, at) / 2


@pytest.mark.parametrize("script", sorted(DEPLOY.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_parse_and_keep_ray_private(script: Path) -> None:
    ended = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert "RAY_USAGE_STATS_ENABLED=0" in text
    assert re.search(r"start --head .*--node-ip-address=", text)
    assert "0.0.0.0" not in text


class Slurm:
    """Commands that stand in for Slurm's and Ray's: each notes how it was called, and `srun` runs what it is given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        for name in ("ray", "posattn", "sleep"):
            self.command(name, "")
        self.command("scontrol", "printf 'one\\ntwo\\n'")
        self.command("srun", 'while [[ $1 == --* ]]; do shift; done; exec "$@"')

    def command(self, name: str, does: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.calls}"\n{does}\n')
        path.chmod(0o755)

    def run(self, nodes: int, **variables: str) -> subprocess.CompletedProcess[str]:
        job = {"SLURM_JOB_NODELIST": "x", "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_CPUS_PER_TASK": "16"}
        environment = {"PATH": f"{self.folder}:/usr/bin:/bin", **job, **variables}
        command = ["bash", str(DEPLOY / "slurm.sh"), "run", "ood-scale"]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)


@pytest.mark.parametrize(
    ("named", "own", "variables", "chosen"),
    [
        ("echo '10.1.1.4 STREAM one'", "echo 10.9.9.9", {}, "10.1.1.4"),
        ("echo '127.0.1.1 STREAM one'", "echo 127.0.1.1 fe80::1 10.1.1.5 172.17.0.1", {}, "10.1.1.5"),
        ("exit 2", "echo 10.1.1.6 10.2.2.2", {}, "10.1.1.6"),
        ("echo '10.1.1.4 STREAM one'", "echo 10.9.9.9", {"ADDRESS": "10.3.3.3"}, "10.3.3.3"),
    ],
)
def test_the_slurm_job_gives_every_step_its_cpus_and_ray_an_address_that_others_reach(
    named: str, own: str, variables: dict[str, str], chosen: str, tmp_path: Path
) -> None:
    slurm = Slurm(tmp_path)
    slurm.command("getent", named)
    slurm.command("hostname", own)
    ended = slurm.run(2, **variables)
    assert ended.returncode == 0, ended.stderr
    calls = slurm.calls.read_text().splitlines()
    steps = [call for call in calls if call.startswith("srun")]
    assert len(steps) >= 3
    assert all("--cpus-per-task=16" in call for call in steps)
    assert any(f"ray start --head --block --node-ip-address={chosen} --port=6379" in call for call in steps)
    assert any(f"--exclude=one ray start --block --address={chosen}:6379" in call for call in steps)
    assert f"posattn run ood-scale --cluster {chosen}:6379" in calls


def test_the_slurm_job_says_when_the_head_has_no_address(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)
    slurm.command("getent", "echo '127.0.1.1 STREAM one'")
    slurm.command("hostname", "echo 127.0.1.1")
    ended = slurm.run(1)
    assert ended.returncode != 0
    assert "name one, sbatch --export=ALL,ADDRESS=10.0.0.1" in ended.stderr
    assert "posattn" not in slurm.calls.read_text()


#: What KubeRay requires of a RayJob, as far as our file goes.
POD = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["containers"],
            "properties": {
                "containers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["name", "image", "env", "resources"],
                        "properties": {
                            "env": {"contains": {"const": {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}}},
                            "resources": {"required": ["limits"]},
                        },
                    },
                }
            },
        }
    },
}
RAY_JOB = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayJob"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "required": ["entrypoint", "rayClusterSpec"],
            "properties": {
                "entrypoint": {"type": "string", "pattern": "--cluster auto"},
                "rayClusterSpec": {
                    "type": "object",
                    "required": ["headGroupSpec", "workerGroupSpecs"],
                    "properties": {
                        "headGroupSpec": {
                            "type": "object",
                            "required": ["rayStartParams", "template"],
                            "properties": {"serviceType": {"const": "ClusterIP"}, "template": POD},
                        },
                        "workerGroupSpecs": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["groupName", "replicas", "rayStartParams", "template"],
                                "properties": {
                                    "replicas": {"type": "integer", "minimum": 1},
                                    "rayStartParams": {"additionalProperties": {"type": "string"}},
                                    "template": POD,
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


def test_the_file_for_kuberay_is_clean_and_has_what_is_required() -> None:
    text = (DEPLOY / "kuberay.yaml").read_text()
    rules = YamlLintConfig("{extends: default, rules: {line-length: {max: 120}, document-start: disable}}")
    assert [str(problem) for problem in linter.run(text, rules)] == []
    jsonschema.validate(yaml.safe_load(text), RAY_JOB)
