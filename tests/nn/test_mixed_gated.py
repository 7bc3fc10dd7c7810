"""Numbers that a text lets through: against the formula, one number at a time, and the symmetries it promises."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posattn import tasks
from posattn.errors import PosattnError
from posattn.nn import MixedGated, MixedGatedModel, from_json, load
from posattn.tasks.mixed import CHARACTERS, DECIDES, GLYPHS, LABELS, compared

TWO: Any = ((((0, 3), (1, 3)), ((2, 3), (0, 1))), (((1, 2), (3, 3)), ((2, 2), (1, 3))))


def made(numbers: int = 8, **options: Any) -> MixedGatedModel:
    given = {"compared": compared()[:numbers], "decides": DECIDES} | options
    return MixedGatedModel(**given, generator=torch.Generator().manual_seed(0)).double()


def mlp(model: MixedGatedModel, name: str, seen: list[float]) -> float:
    """An MLP, one unit at a time."""
    for part in ("first", "middle", "last"):
        layer: Any = getattr(model, f"{name}_{part}")
        bias = layer.bias.tolist() if layer.bias is not None else [0.0] * layer.out_features
        seen = [
            sum(w * s for w, s in zip(row, seen, strict=True)) + b
            for row, b in zip(layer.weight.tolist(), bias, strict=True)
        ]
        if part != "last":
            seen = [max(0.0, s) for s in seen]
    return seen[0]


def by_hand(model: MixedGatedModel, text: list[int], numbers: list[float]) -> float:
    gates = [
        sum(mlp(model, "gate", [float(text[a] == text[b]) for a, b in place]) for place in places)
        for places in model.architecture.compared
    ]
    left = [(gate * number, gate) for gate, number in zip(gates, numbers, strict=True)]
    one, other = model.architecture.decides
    while len(left) > 1:
        left += [(0.0, 0.0)] * (len(left) % 2)
        joined = []
        for (a, p), (b, q) in zip(left[::2], left[1::2], strict=True):
            seen = [0.0, 0.0, a * q, b * p] if text[one] == text[other] else [a * q, b * p, 0.0, 0.0]
            joined.append((a + b + mlp(model, "join", seen), p + q - p * q))
        left = joined
    return left[0][0]


@pytest.mark.parametrize("numbers", [1, 2, 3, 5, 8])
def test_it_is_its_formula(numbers: int) -> None:
    model = made(numbers)
    inputs, _ = tasks.get("mixed-multitask").sample(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    given = inputs.numbers[:, :numbers] - 2
    wanted = [by_hand(model, text, row) for text, row in zip(inputs.characters.tolist(), given.tolist(), strict=True)]
    assert model(inputs.characters, given)[:, 0].tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@given(st.permutations(range(len(GLYPHS))), st.floats(1e-3, 1e3))
def test_characters_may_be_renamed_and_numbers_scaled(names: list[int], scale: float) -> None:
    inputs, _ = tasks.get("mixed-multitask").sample(4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    model = made()
    renamed = model(torch.tensor(names)[inputs.characters], scale * inputs.numbers)
    # sums of absolute products stay below 1e6, so that 100 roundings of them are at most 100·1e6·2⁻⁵³ ≈ 1e-8
    torch.testing.assert_close(renamed / scale, model(*inputs), rtol=0, atol=1e-8)


@pytest.mark.parametrize("held_out", [False, True])
def test_what_is_compared_decides_the_answer(held_out: bool) -> None:
    """Of every number, one place tells by all its pairs whether it counts; the operation follows from the last pair."""
    inputs, target = tasks.get("mixed-multitask").sample(
        200, held_out=held_out, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    for text, numbers, wanted in zip(inputs.characters.tolist(), inputs.numbers.tolist(), target, strict=True):
        counted = []
        for number, places in zip(numbers, compared(), strict=True):
            bits = [[text[a] == text[b] for a, b in place] for place in places]
            there = [any(asked) for *around, asked in ((*row[:2], row[2:]) for row in bits) if all(around)]
            assert len(there) == 1
            counted += [number] * there[0]
        assert len(counted) == 4
        assert (max if text[DECIDES[0]] == text[DECIDES[1]] else min)(counted) == wanted


def test_a_file_and_a_text_give_the_model_back(tmp_path) -> None:
    model = made()
    model.save(tmp_path / "gated.safetensors")
    back = load(tmp_path / "gated.safetensors")
    inputs, _ = tasks.get("mixed-min").sample(3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    assert all(torch.equal(back.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    assert from_json(model.architecture.to_json()) == model.architecture
    assert [step.name for step in model.trace(*inputs)] == ["gates", "answer"]
    assert model.trace(*inputs)[0].state.shape == (3, LABELS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compared": 3}, "compared=3: name, for every number"),
        ({"compared": ()}, "equally many places and pairs"),
        ({"compared": ((((0, 1),),), (((0, 1),), ((0, 1),)))}, "equally many places and pairs"),
        ({"compared": ((((0, 1, 2),),),)}, "a pair is two places"),
        ({"compared": ((((0, 4),),),)}, "characters have the places 0 … 3"),
        ({"compared": ((((0, -1),),),)}, "a place of compared"),
        ({"decides": (0, 9)}, "decides=.*: characters have the places 0 … 3"),
        ({"hidden_dim": 0}, "hidden_dim=0"),
    ],
)
def test_what_cannot_be_built_is_refused(as_users_run_it: None, options: dict[str, Any], said: str) -> None:
    with pytest.raises(PosattnError, match=said):
        MixedGated(**({"compared": TWO, "characters": 4} | options))


@pytest.mark.parametrize(
    ("characters", "numbers", "said"),
    [
        (torch.zeros(2, 89, dtype=torch.int64), torch.zeros(2, 8), r"\(batch, 90\), int64"),
        (torch.zeros(2, CHARACTERS), torch.zeros(2, 8), "int64"),
        (torch.zeros(2, CHARACTERS, dtype=torch.int64), torch.zeros(2, 7), r"\(batch, 8\), floats"),
        (torch.zeros(1, CHARACTERS, dtype=torch.int64), torch.full((1, 8), torch.nan), "the numbers"),
    ],
)
def test_what_it_cannot_take_is_refused(
    as_users_run_it: None, characters: torch.Tensor, numbers: torch.Tensor, said: str
) -> None:
    with pytest.raises(PosattnError, match=said):
        made().float()(characters, numbers)
