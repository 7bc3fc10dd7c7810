"""Triton kernels against their formulas, without a GPU too.

`cases.py` holds the cases. Triton's interpreter must be switched on before Triton is imported, so they run in a
process of their own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch


def measured(kernels: str, device: str) -> list[dict[str, Any]]:
    interpreted = {"TRITON_INTERPRET": "1"} if device == "cpu" else {}
    process = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name("cases.py"), kernels, device],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | interpreted,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.parametrize("device", ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
@pytest.mark.parametrize(
    ("kernels", "least"),
    [
        ("attending", 300),
        ("mixing", 150),
        ("maps", 100),
        ("wide", 70),
        ("expand", 45),
        ("decoder", 50),
        ("look-up", 12),
        ("adam", 20),
        ("signed", 80),
        ("gpt", 100),
        ("noise", 20),
    ],
)
def test_kernels_equal_their_formulas_in_values_and_gradients(kernels: str, least: int, device: str) -> None:
    lines = measured(kernels, device)
    assert len(lines) >= least
    assert [line for line in lines if not line["error"] <= line["bound"]] == []
