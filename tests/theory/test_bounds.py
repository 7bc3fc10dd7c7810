"""The terms of Theorem 6.1 against the formula written out."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from posattn.compile import compile, library
from posattn.errors import PosattnError
from posattn.nn import GPT, Model, PositionalTransformer, StandardTransformer
from posattn.theory import bounds, report
from posattn.theory.bounds import Terms, terms

SIZES: dict[str, Any] = {"length": 5, "embed_dim": 6, "hidden_dim": 7, "layers": 3, "heads": 2}


def model(cls: type = PositionalTransformer, **options: object) -> PositionalTransformer:
    return cls(**SIZES, **options, generator=torch.Generator().manual_seed(0))


def largest(module: Model[Any], norm: object) -> float:
    found = []
    for name, weight in module.weights().items():
        if name.endswith("_weight") and not name.startswith(("query", "key")):
            matrices = weight.detach().double().numpy().reshape(-1, *weight.shape[-2:])
            found += [norm(matrix) for matrix in matrices]  # type: ignore[operator]
    return max(found)


@pytest.mark.parametrize("constant", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("cls", [PositionalTransformer, StandardTransformer])
def test_terms_are_the_theorems_formula(cls: type, constant: float) -> None:
    module, m, delta = model(cls), 1234, 0.01
    found = terms(module, samples=m, delta=delta, constant=constant)
    spectral = largest(module, lambda matrix: np.linalg.norm(matrix, 2))
    column = largest(module, lambda matrix: np.linalg.norm(matrix, axis=0).sum())
    first = (2 * 1.0 * spectral) ** (constant * 3) * column
    assert 10**found.norm_factor == pytest.approx(first, rel=1e-9)
    assert 10**found.sample_factor == pytest.approx(math.sqrt(math.log(2 * 6 * m * 6) / m), rel=1e-12)
    assert 10**found.confidence == pytest.approx(math.sqrt(math.log(1 / delta) / m), rel=1e-12)
    attention = 1.0
    if cls is StandardTransformer:
        assert found.query_key is not None
        attention = found.query_key ** (constant * 3)
    assert 10**found.query_key_factor == pytest.approx(attention, rel=1e-9)
    whole = first * attention * 10**found.sample_factor + 10**found.confidence
    assert 10**found.total == pytest.approx(whole, rel=1e-9)


def test_more_samples_and_a_larger_chance_to_fail_make_the_bound_smaller() -> None:
    module = model()
    totals = [terms(module, samples=m).total for m in (10, 100, 1000, 10_000)]
    assert totals == sorted(totals, reverse=True)
    assert terms(module, samples=9, delta=0.5).confidence < terms(module, samples=9, delta=0.1).confidence


def test_a_fleets_terms_are_each_models_own() -> None:
    modules = [PositionalTransformer(**SIZES, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    stacked = {name: torch.cat([one.replica()[name] for one in modules]) for name in modules[0].replica()}
    found = bounds.fleet_terms(modules[0].architecture, stacked, samples=50)
    for one, alone in zip(found, (terms(module, samples=50) for module in modules), strict=True):
        for field in dataclasses.fields(Terms):
            mine, its = getattr(one, field.name), getattr(alone, field.name)
            assert mine == (pytest.approx(its, rel=1e-12) if isinstance(its, float) else its)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples": 0}, ["m=0", "at least one sample"]),
        ({"samples": 5, "delta": 0.0}, ["delta=0.0", "(0, 1)"]),
        ({"samples": 5, "delta": 1.0}, ["delta=1.0", "(0, 1)"]),
        ({"samples": 5, "constant": 0.0}, ["constant=0.0"]),
        ({"samples": 5, "constant": math.inf}, ["constant=inf"]),
    ],
)
def test_bad_input_is_one_clear_error(options: dict[str, float], words: list[str]) -> None:
    with pytest.raises(PosattnError) as caught:
        terms(model(), **options)  # type: ignore[arg-type]
    assert all(word in str(caught.value) for word in words)


def test_gpt_has_gelus_slope_and_compiled_models_have_terms_too() -> None:
    assert terms(GPT(length=5, embed_dim=6), samples=9).slope > 1.128
    assert math.isfinite(terms(compile(library.get("sort", 4)).model, samples=9).total)


def test_report_names_every_quantity_and_says_which_constants_were_used() -> None:
    facts = report.about(model(StandardTransformer), samples=100, delta=0.2, constant=2.0)
    assert facts["model"] == ("standard", "m = 100, δ = 0.2, c = 2, other constants 1")
    assert {"heads", "layers", "width", "nodes", "slope", "spectral", "column", "query key", "bound"} <= set(facts)
    assert facts["Lipschitz, at most"][0] is None
    assert all(value is None or math.isfinite(value) for value, _ in facts.values() if not isinstance(value, str))
    assert "query key" not in report.about(model(), samples=100)


def test_of_weights_that_are_no_numbers_nothing_is_said() -> None:
    for broken in (math.nan, math.inf):
        lost = model()
        with torch.no_grad():
            lost.encoder.weight[0, 0] = broken
        with pytest.raises(PosattnError, match=r"tensor 'encoder_weight' holds NaN or infinite.*lower learning rate"):
            report.about(lost, samples=100)


def test_report_tells_errors_at_other_scales_of_homogeneous_models_alone() -> None:
    facts = report.about(model(bias=False), samples=100, task="sum", scales=(3.0,))
    told, seen = (facts[f"{what} at c = 3"][0] for what in ("error", "measured"))
    assert isinstance(told, float)
    assert told == pytest.approx(seen, rel=0.5)
    for other in (model(), model(StandardTransformer)):
        with pytest.raises(PosattnError, match="homogeneous"):
            report.about(other, samples=100, task="sum", scales=(3.0,))
