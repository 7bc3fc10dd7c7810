"""Triton kernels against their formulas, without a GPU too; and when a model chooses the form that is made of them.

`kernel_cases.py` holds the cases. Triton's interpreter must be switched on before Triton is imported, so they run in a
process of their own.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from posattn.nn import (
    Architecture,
    GPTArchitecture,
    Hybrid,
    Positional,
    PositionalTransformer,
    Standard,
    StandardTransformer,
)

from . import oracle

CPU, CUDA = torch.device("cpu"), torch.device("cuda")  # the name of a device that need not be there


def measured(kernels: str, device: str) -> list[dict[str, Any]]:
    interpreted = {"TRITON_INTERPRET": "1"} if device == "cpu" else {}
    process = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name("kernel_cases.py"), kernels, device],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | interpreted,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.parametrize("device", ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
@pytest.mark.parametrize(
    ("kernels", "least"), [("fused", 90), ("wide", 60), ("expand", 30), ("signed", 80), ("gpt", 100)]
)
def test_kernels_equal_their_formulas_in_values_and_gradients(kernels: str, least: int, device: str) -> None:
    lines = measured(kernels, device)
    assert len(lines) >= least
    assert [line for line in lines if not line["error"] <= line["bound"]] == []


def chosen(architecture: Architecture, device: torch.device, precision: str) -> tuple[str, torch.dtype | None]:
    """The name of the form that is chosen, and the dtype that it is told to round to."""
    form = architecture.form(device=device, precision=precision)
    if isinstance(form, partial):
        return form.func.__name__, form.keywords["dtype"]
    return ("forward" if form == architecture.forward else form.__name__), None


MODELS: list[Architecture] = [Positional(), Positional(bias=False), Standard(), Standard(rotary=True), Hybrid()]
MODELS += [GPTArchitecture(), GPTArchitecture(positional=True)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("device", [CPU, CUDA], ids=str)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_full_precision_is_the_forward_pass_everywhere(
    model: Architecture, device: torch.device, precision: str
) -> None:
    assert chosen(model, device, precision) == ("forward", None)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_cpu_has_no_tensor_cores_to_feed(model: Architecture) -> None:
    assert chosen(model, CPU, "tf32") == ("forward", None)
    assert chosen(model, CPU, "bf16") == ("half", None)


@pytest.mark.parametrize(("precision", "dtype"), [("tf32", None), ("bf16", torch.bfloat16)])
def test_tensor_cores_get_the_form_that_feeds_them(precision: str, dtype: torch.dtype | None) -> None:
    for positional in (Positional(), Positional(bias=False), Positional(mlp_layers=3), Positional(constants="one-hot")):
        assert chosen(positional, CUDA, precision) == ("expanded", dtype)
    for standard in (Standard(), Standard(bias=False), Standard(append_encoding=False), Standard(heads=1)):
        assert chosen(standard, CUDA, precision) == ("fused", dtype)


@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        (Positional(length=23), Positional(length=24)),  # W has n/(1 + H) times the arithmetic: up to 8 times
        (Positional(length=23, scratchpad=1), Positional(length=23, scratchpad=2)),
        (Positional(length=31, heads=4, scratchpad=0), Positional(length=41, heads=4, scratchpad=0)),
        (Standard(hidden_dim=64), Standard(hidden_dim=65)),
        (Standard(in_dim=55), Standard(in_dim=56)),
        (Standard(constants="sinusoidal", constants_dim=54), Standard(constants="sinusoidal", constants_dim=56)),
        (Standard(mlp_layers=2), Standard(mlp_layers=3)),
        (Standard(), Standard(rotary=True)),
    ],
    ids=repr,
)
def test_what_does_not_fit_the_kernels_takes_the_usual_way(fits: Architecture, does_not: Architecture) -> None:
    for precision, otherwise in (("tf32", "forward"), ("bf16", "half")):
        assert chosen(fits, CUDA, precision)[0] in ("expanded", "fused")
        assert chosen(does_not, CUDA, precision) == (otherwise, None)


@pytest.mark.parametrize(
    ("fits", "does_not", "precision", "otherwise"),
    [
        (Standard(length=62), Standard(length=63), "tf32", "forward"),  # [x ‖ P]: 64 and 65 wide
        (Standard(length=63, append_encoding=False), Standard(length=64, append_encoding=False), "tf32", "forward"),
        (Standard(length=31), Standard(length=32), "bf16", "half"),
    ],
    ids=repr,
)
def test_how_many_nodes_the_fused_kernel_takes_depends_on_its_bits(
    fits: Standard, does_not: Standard, precision: str, otherwise: str
) -> None:
    assert chosen(fits, CUDA, precision)[0] == "fused"
    assert chosen(does_not, CUDA, precision) == (otherwise, None)


@pytest.mark.parametrize("positional", [False, True])
def test_a_gpt_takes_its_kernels_in_tf32_where_it_fits(positional: bool) -> None:
    def form(precision: str = "tf32", **sizes: Any) -> str:
        return chosen(GPTArchitecture(positional=positional, **sizes), CUDA, precision)[0]

    assert form() == form(vocabulary=1000, layers=9) == form(length=128) == form(embed_dim=64, heads=2) == "fused"
    assert form(length=129) == form(embed_dim=66, heads=3) == form(embed_dim=33, heads=1) == "forward"
    assert form("bf16") == "half"


@pytest.mark.parametrize("cls", [PositionalTransformer, StandardTransformer])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"mlp_layers": 3}], ids=str)
def test_bfloat16_on_the_cpu_is_near_the_plain_form_in_values_and_gradients(cls: Any, options: dict[str, Any]) -> None:
    model = oracle.stirred(cls(length=5, embed_dim=8, hidden_dim=8, layers=2, **options)).float()
    form = model.architecture.form(device=CPU, precision="bf16")
    x = oracle.numbers(1, 29, 5, 1).float()
    results = []
    for how in (form, model.architecture.plain):
        model.zero_grad()
        y = how(model.replica(), x)
        y.double().square().mean().backward()
        results.append((y.detach().double(), {n: p.grad.double() for n, p in model.named_parameters()}))
    (y, gradients), (plain, expected) = results
    assert 0 < (y - plain).norm() / plain.norm() < 0.05  # rounded, by 2⁻⁹ a dozen times on end
    for name, gradient in gradients.items():
        if name != "key_bias":  # 0 but for rounding
            assert (gradient - expected[name]).norm() / expected[name].norm() < 0.2, name  # some ReLUs switch


def test_a_model_of_one_form_is_its_own_plain_form() -> None:
    assert Hybrid.plain is Architecture.plain
