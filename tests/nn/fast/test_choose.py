"""Which form a fleet runs, by device, precision and sizes."""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from nn import oracle
from posattn.nn import (
    Architecture,
    ExactPositional,
    FullyConnected,
    GPTArchitecture,
    Hybrid,
    MixedPositional,
    MixedStandard,
    Positional,
    PositionalTransformer,
    RandomPlaces,
    Selector,
    Standard,
    StandardTransformer,
    architecture,
    module,
)
from posattn.nn.fast.any_model import mapped
from posattn.nn.fast.choose import fast_form
from posattn.nn.fast.two_stages import TwoStages

CPU, CUDA = torch.device("cpu"), torch.device("cuda")  # the name of a device that need not be there


def chosen(sizes: Architecture, device: torch.device, precision: str) -> tuple[str, torch.dtype | None]:
    """The name of the form that is chosen, and the dtype that it is told to round to."""
    form = fast_form(sizes, device=device, precision=precision)
    form = form.apply if isinstance(form, TwoStages) else form
    if isinstance(form, partial):
        return form.func.__name__, form.keywords.get("dtype")
    return ("the model's own" if form.__qualname__ == MAPPED else form.__name__), None


#: What `mapped` calls the function that it makes.
MAPPED = mapped(Positional()).__qualname__

#: Architectures, and the form of ordinary operations that each is computed by.
MODELS: list[tuple[Architecture, str]] = [
    (Positional(), "factored_pass"),
    (Positional(bias=False), "factored_pass"),
    (Standard(), "folded_pass"),
    (Standard(rotary=True), "numeric"),
    (Hybrid(), "numeric"),
    (RandomPlaces(), "folded"),  # by tables, which a GPU does not take
    (MixedPositional(), "positional"),
    (MixedStandard(), "standard"),
    (MixedStandard(rotary=True), "mixed"),
    (GPTArchitecture(), "joined"),
    (GPTArchitecture(positional=True), "joined"),
    (Selector(encoding="one-hot"), "split"),
    (ExactPositional(), "the model's own"),
    (FullyConnected(), "layers"),
]
#: Those that have kernels on a GPU, and the forms that are made of these.
KERNELS: dict[Architecture, str] = {
    **dict.fromkeys((Positional(), Positional(bias=False), Standard()), "by_rows"),
    **dict.fromkeys((MixedPositional(), MixedStandard()), "by_rows"),
    Standard(rotary=True): "turned",
}
EVERY_MODEL = pytest.mark.parametrize(("model", "usual"), MODELS, ids=lambda value: type(value).__name__)


@EVERY_MODEL
@pytest.mark.parametrize("device", [CPU, CUDA], ids=str)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_full_precision_takes_the_same_form_everywhere_but_for_these_on_a_gpu(
    model: Architecture, usual: str, device: torch.device, precision: str
) -> None:
    if (device, precision) == (CUDA, "float32"):
        usual = KERNELS.get(model, usual)
    elif device == CUDA and type(model) is Positional:
        usual = "folded"
    if device == CUDA and type(model) is RandomPlaces:
        usual = "numeric"
    assert chosen(model, device, precision) == (usual, None)


def test_values_stay_narrow_on_a_cpu_where_that_is_less_arithmetic() -> None:
    for narrow in (Positional(), Positional(heads=4, length=32), Positional(embed_dim=32)):
        assert chosen(narrow, CPU, "float32")[0] == "factored_pass"
    for wide in (Positional(heads=1), Positional(embed_dim=256), Positional(hidden_dim=16)):
        assert chosen(wide, CPU, "float32")[0] == "folded"


def test_random_places_are_looked_up_where_folded_values_are_no_wider_than_the_state() -> None:
    assert chosen(RandomPlaces(hidden_dim=16), CPU, "float32")[0] == "folded"
    assert chosen(RandomPlaces(hidden_dim=65), CPU, "float32")[0] == "numeric"


@EVERY_MODEL
def test_cpu_has_no_tensor_cores_to_feed(model: Architecture, usual: str) -> None:
    assert chosen(model, CPU, "tf32") == (usual, None)
    assert chosen(model, CPU, "bf16") == ("half", None)


@pytest.mark.parametrize(("precision", "dtype"), [("tf32", None), ("bf16", torch.bfloat16)])
def test_tensor_cores_get_the_form_that_feeds_them(precision: str, dtype: torch.dtype | None) -> None:
    for positional in (Positional(), Positional(bias=False), Positional(mlp_layers=3), Positional(constants="one-hot")):
        assert chosen(positional, CUDA, precision) == ("expanded", dtype)


def test_a_standard_model_takes_its_kernels_where_it_fits_but_for_bfloat16() -> None:
    many: dict[str, Any] = {"encoding": "binary"}  # P is short: one-hot rows are as wide as there are nodes
    for fits in (
        Standard(),
        Standard(bias=False),
        Standard(length=127, **many),
        Standard(mlp_layers=3),
        Standard(in_dim=119),
    ):
        assert chosen(fits, CUDA, "tf32") == chosen(fits, CUDA, "float32") == ("by_rows", None)
        assert chosen(fits, CUDA, "bf16") == ("half", None)
    for wide in (Standard(length=128, **many), Standard(hidden_dim=129), Standard(in_dim=120)):  # [x ‖ P]: nine more
        assert chosen(wide, CUDA, "tf32") == chosen(wide, CUDA, "float32") == ("folded_pass", None)


def test_values_stay_narrow_on_a_gpu_where_that_is_less_arithmetic() -> None:
    for narrow in (Positional(), Positional(heads=4, length=32), Positional(length=127), MixedPositional()):
        assert chosen(narrow, CUDA, "float32")[0] == "by_rows"
    for wide in (Positional(heads=1), Positional(embed_dim=256), Positional(hidden_dim=16), Positional(length=128)):
        assert chosen(wide, CUDA, "float32")[0] == "folded"


def test_a_gpu_with_less_shared_memory_takes_kernels_for_fewer_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest tiles need 197 kB; an RTX 4090 has 99."""
    for shared, most in ((101_376, 31), (232_448, 127)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        here = SimpleNamespace(shared_memory_per_block_optin=shared)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, here=here: here)
        fits, larger = (Standard(length=length, encoding="binary") for length in (most, most + 1))
        assert chosen(fits, CUDA, "float32")[0] == "by_rows"
        assert chosen(larger, CUDA, "float32")[0] == "folded_pass"


@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        (Positional(length=23), Positional(length=24)),  # W has n/(1 + H) times the arithmetic: up to 8 times
        (Positional(length=23, scratchpad=1), Positional(length=23, scratchpad=2)),
        (Positional(length=31, heads=4, scratchpad=0), Positional(length=41, heads=4, scratchpad=0)),
    ],
    ids=repr,
)
def test_what_would_be_too_much_arithmetic_expanded_takes_the_usual_way(
    fits: Architecture, does_not: Architecture
) -> None:
    for precision in ("tf32", "bf16"):
        assert chosen(fits, CUDA, precision)[0] == "expanded"
        assert chosen(does_not, CUDA, precision)[0] == ("by_rows" if precision == "tf32" else "half")


@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        (Standard(rotary=True, length=127, encoding="binary"), Standard(rotary=True, length=128, encoding="binary")),
        (Standard(rotary=True, hidden_dim=128), Standard(rotary=True, hidden_dim=129)),
        (Standard(rotary=True, embed_dim=128), Standard(rotary=True, embed_dim=130)),
        (Standard(rotary=True, in_dim=119), Standard(rotary=True, in_dim=120)),  # [x ‖ P]: nine more
    ],
    ids=repr,
)
def test_a_rotary_model_takes_its_kernels_where_it_fits(fits: Standard, does_not: Standard) -> None:
    for precision in ("float32", "tf32"):
        assert chosen(fits, CUDA, precision) == ("turned", None)
        assert chosen(does_not, CUDA, precision) == ("numeric", None)
    assert chosen(fits, CUDA, "float64") == chosen(fits, CPU, "float32") == ("numeric", None)
    assert chosen(fits, CUDA, "bf16") == ("half", None)


@pytest.mark.parametrize("positional", [False, True])
def test_a_gpt_takes_its_kernels_in_tf32_where_it_fits(positional: bool) -> None:
    def form(precision: str = "tf32", **sizes: Any) -> str:
        return chosen(GPTArchitecture(positional=positional, **sizes), CUDA, precision)[0]

    assert form() == form(vocabulary=1000, layers=9) == form(length=128) == form(embed_dim=64, heads=2) == "fused"
    assert form(length=129) == form(embed_dim=66, heads=3) == form(embed_dim=33, heads=1) == "joined"
    assert form("bf16") == "half"


@pytest.mark.parametrize("cls", [PositionalTransformer, StandardTransformer])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"mlp_layers": 3}], ids=str)
def test_bfloat16_on_the_cpu_is_near_the_model_in_values_and_gradients(cls: Any, options: dict[str, Any]) -> None:
    model = oracle.stirred(cls(length=5, embed_dim=8, hidden_dim=8, layers=2, **options)).float()
    form = fast_form(model.architecture, device=CPU, precision="bf16")
    x = oracle.numbers(1, 29, 5, 1).float()
    results = []
    for how in (form, mapped(model.architecture)):
        p = {name: tensor.detach().requires_grad_() for name, tensor in model.replica().items()}
        y = how(p, x)
        y.double().square().mean().backward()
        results.append((y.detach().double(), {name: leaf.grad.double() for name, leaf in p.items()}))
    (y, gradients), (plain, expected) = results
    assert 0 < (y - plain).norm() / plain.norm() < 0.05  # rounded, by 2⁻⁹ a dozen times on end
    for name, gradient in gradients.items():
        if name not in ("key_bias", "encoding"):  # 0 but for rounding; a constant
            assert (gradient - expected[name]).norm() / expected[name].norm() < 0.2, name  # some ReLUs switch


def test_a_selector_with_stochastic_encodings_takes_its_kernels_on_a_gpu() -> None:
    for precision, form in (("float32", "fused"), ("tf32", "fused"), ("float64", "split"), ("bf16", "half")):
        assert chosen(Selector(), CUDA, precision) == (form, None)
        assert chosen(Selector(encoding="one-hot"), CUDA, precision) == ({"fused": "split"}.get(form, form), None)


def test_without_a_fast_form_a_fleet_runs_the_models_own_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's model needs no more than its forward pass: here twice what a positional one answers."""
    monkeypatch.setattr("posattn.nn.architecture.ARCHITECTURES", dict(architecture.ARCHITECTURES))
    monkeypatch.setattr("posattn.nn.module.MODELS", dict(module.MODELS))

    @dataclass(frozen=True, kw_only=True)
    class Doubled(Positional):
        kind = "doubled"

    class DoubledTransformer(PositionalTransformer):
        describes = Doubled

        def forward(self, x: Tensor, *, encoding: Tensor | None = None) -> Tensor:
            return 2 * super().forward(x, encoding=encoding)

    sizes: dict[str, Any] = {"length": 5, "embed_dim": 6, "hidden_dim": 7, "layers": 2}
    models = [oracle.stirred(DoubledTransformer(**sizes), seed) for seed in range(2)]
    form, x = fast_form(Doubled(**sizes), device=CPU, precision="float64"), oracle.numbers(2, 3, 5, 1)
    found = form(oracle.stacked(models), x)
    for replica, model in enumerate(models):
        expected, _ = oracle.positional(oracle.weights_of(model), x[replica], heads=2)
        assert oracle.relative_error(found[replica], 2 * expected) < oracle.ROUNDING
