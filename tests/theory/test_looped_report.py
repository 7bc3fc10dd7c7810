"""What `posattn bounds` says of looped models: bounds are above what is measured, and both are of the same thing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command_line import runner
from looped_models import with_slopes
from posattn.errors import PosattnError
from posattn.nn import LoopedPositionalTransformer, PositionalTransformer
from posattn.theory import looped_report
from posattn.theory.looped_report import about_looped, measure
from posattn.theory.report import about

SHIFT, POTENTIAL = ("scale", "shift"), ("scale", "potential")
MODELS = {
    "scan": ("scan", SHIFT, [(1 - 2e-4, 3e-4)], 100),
    "bitonic": ("bitonic", SHIFT, [(-1e-4, -1 + 2e-4), (1 + 3e-4, -2e-4)], 100),
    "widest": ("pairs", SHIFT, [(1e-4, -1 + 2e-4), (1 - 3e-4, 2e-4)], 9),
    "paths": ("pairs", POTENTIAL, [(-1e-4, -1 + 2e-4)], 9),
    "grid": ("grid", POTENTIAL, [(1e-4, -1 + 2e-4), (3e-4, -1 - 2e-4)], 9),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_measured_is_below_what_is_proved_and_above_0(name: str) -> None:
    schedule, symmetry, slopes, size = MODELS[name]
    found = {fact: value for fact, (value, _) in about_looped(with_slopes(schedule, symmetry, slopes), size).items()}
    measured, proved, rounded = (found[fact] for fact in ("measured", "proved", "proved with rounding"))
    assert isinstance(measured, float)
    assert isinstance(proved, float)
    assert isinstance(rounded, float)
    assert 1e-5 < measured <= proved <= rounded


def test_the_measured_error_is_that_of_sorting() -> None:
    """Against NumPy: the same inputs, sorted."""
    model = with_slopes(*MODELS["bitonic"][:3])
    seeded = torch.Generator().manual_seed(5)
    x = 2 * torch.rand(looped_report.SAMPLES, 37, 1, generator=seeded, dtype=torch.float64) - 1
    with torch.no_grad():
        off = np.abs(model(x).numpy() - np.sort(x.numpy(), axis=1)).max((1, 2))
    share = (off / (np.ptp(x.numpy(), axis=(1, 2)) / 2)).max()
    assert measure(model, 37, generator=torch.Generator().manual_seed(5)) == pytest.approx(share, rel=1e-12)


def test_the_median_is_measured_against_the_mean_of_the_two_in_the_middle() -> None:
    made = with_slopes(*MODELS["bitonic"][:3])
    model = LoopedPositionalTransformer(schedule="bitonic", symmetry=SHIFT, reads="median", hidden_dim=4, mlp_layers=2)
    model.double().load_state_dict(made.state_dict())
    seeded = torch.Generator().manual_seed(5)
    x = 2 * torch.rand(looped_report.SAMPLES, 10, 1, generator=seeded, dtype=torch.float64) - 1
    with torch.no_grad():
        off = np.abs(model(x)[:, 0, 0].numpy() - np.median(x.numpy(), axis=(1, 2)))
    share = (off / (np.ptp(x.numpy(), axis=(1, 2)) / 2)).max()
    assert measure(model, 10, generator=torch.Generator().manual_seed(5)) == pytest.approx(share, rel=1e-9)


def test_a_right_step_has_no_error_but_rounding() -> None:
    for schedule, symmetry, slopes, size in MODELS.values():
        right = with_slopes(schedule, symmetry, [[float(round(slope)) for slope in row] for row in slopes])
        assert measure(right, size, generator=torch.Generator().manual_seed(0)) < 1e-14


def test_scale_alone_is_measured_against_the_nearest_function() -> None:
    found = about_looped(LoopedPositionalTransformer(symmetry=("scale", "linear")), 16)
    assert found["step"][0] == "sum"
    assert "role 0 self" in found


def test_beyond_the_largest_size_only_the_bound_is_given() -> None:
    found = about_looped(with_slopes(*MODELS["bitonic"][:3]), 10**15)
    assert "measured" not in found
    assert found["steps"][0] == 50 * 51 // 2
    with pytest.raises(PosattnError, match="errors are measured up to 65,536"):
        measure(with_slopes(*MODELS["bitonic"][:3]), 10**15, generator=torch.Generator())


def test_lengths_are_for_looped_models_and_needed_there() -> None:
    with pytest.raises(PosattnError, match="--length 4: bounds at any length"):
        about(PositionalTransformer(length=4, layers=1), samples=10, length=4)
    with pytest.raises(PosattnError, match="name one, as --length 1024"):
        about(with_slopes(*MODELS["scan"][:3]), samples=10)
    with pytest.raises(PosattnError, match="--task sort"):
        about(with_slopes(*MODELS["scan"][:3]), samples=10, length=8, task="sort")


def test_the_command_prints_law_bound_and_measurement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run: Any = runner(monkeypatch, capsys)
    with_slopes(*MODELS["bitonic"][:3]).save(tmp_path / "sort")
    ended = run("bounds", tmp_path / "sort", "--length", 100)
    assert ended.code == 0
    for shown in ("the smaller of two; role 1: the larger of two", "(max x − min x)/2", "0.0003", "measured", "28"):
        assert shown in ended.out
    found = json.loads(run("bounds", tmp_path / "sort", "--length", 100, "--json").out)
    assert found["steps"][0] == 28
