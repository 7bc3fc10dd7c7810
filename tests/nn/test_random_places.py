"""The positional model with places: the positional Transformer that has the places' rows of P, sample by sample."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError
from posattn.nn import (
    PositionalTransformer,
    RandomPlaces,
    RandomPlacesTransformer,
    StandardRandomPlacesTransformer,
    StandardTransformer,
)
from posattn.train import Data, Evaluation, Fleet, Optimiser, Trial

SIZES: dict[str, Any] = {"length": 13, "layers": 3, "embed_dim": 6, "hidden_dim": 7, "heads": 2}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def placed(**options: Any) -> RandomPlacesTransformer:
    wanted = SIZES | {"encoding": "sinusoidal", "encoding_dim": 8} | options
    return RandomPlacesTransformer(**wanted, generator=seeded()).double()


def at(places: list[int], model: RandomPlacesTransformer, x: Tensor) -> Tensor:
    """The positional Transformer for inputs of this length alone, its P being those rows."""
    sizes, table = model.architecture, model.get_buffer("encoding")
    rows = torch.cat([table[places], table[sizes.length :]])
    options: dict[str, Any] = SIZES | {"length": len(places), "scratchpad": sizes.scratchpad, "bias": sizes.bias}
    other = PositionalTransformer(**options, encoding=rows.float()).double()
    weights = {name: value for name, value in model.state_dict().items() if name != "encoding"}
    other.load_state_dict(weights | {"encoding": rows})
    return other(x)


@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(1, 13), st.integers(0, 2), st.booleans())
def test_every_sample_is_answered_by_the_rows_of_its_places(data: Any, length: int, scratch: int, bias: bool) -> None:
    model = placed(scratchpad=scratch, bias=bias)
    chosen = [sorted(data.draw(st.permutations(range(13)))[:length]) for _ in range(2)]
    x = torch.randn(2, length, 1, generator=seeded(3), dtype=torch.float64)
    found = model(x, torch.tensor(chosen))
    for sample, places in enumerate(chosen):
        torch.testing.assert_close(found[sample], at(places, model, x[sample : sample + 1])[0], rtol=1e-9, atol=1e-12)


def test_a_standard_model_reads_the_rows_of_its_places_beside_the_numbers() -> None:
    options: dict[str, Any] = SIZES | {"encoding": "sinusoidal", "encoding_dim": 8}
    model = StandardRandomPlacesTransformer(**options, generator=seeded()).double()
    table, x = model.get_buffer("encoding"), torch.randn(2, 4, 1, generator=seeded(3), dtype=torch.float64)
    chosen = [[0, 3, 4, 12], [1, 2, 7, 9]]
    found = model(x, torch.tensor(chosen))
    for sample, places in enumerate(chosen):
        rows = torch.cat([table[places], table[13:]])
        sizes: dict[str, Any] = SIZES | {"length": 4}
        other = StandardTransformer(**sizes, encoding=rows.float()).double()
        other.load_state_dict(model.state_dict() | {"encoding": rows})
        torch.testing.assert_close(found[sample], other(x[sample : sample + 1])[0], rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("as_users_run_it")
def test_bad_places_and_options_are_one_clear_error() -> None:
    model = placed()
    x = torch.zeros(2, 3, 1, dtype=torch.float64)
    good = torch.tensor([[0, 1, 2]] * 2)
    for places, words in ((good + 11, "lie in 11 … 13"), (good - 1, "lie in -1"), (good[:, :2], r"\(2, 2\)")):
        with pytest.raises(PosattnError, match=words):
            model(x, places)
    with pytest.raises(PosattnError, match="takes none"):
        placed(constants="one-hot")


def test_samples_stand_at_ascending_places_that_chance_or_the_order_gives() -> None:
    task = tasks.get("sort")
    (x, places), y = task.sample(500, length=5, places=9, generator=seeded())
    assert torch.equal(y, x.sort(1).values)
    assert (places.diff(dim=1) > 0).all()
    counts = torch.bincount(places.flatten(), minlength=9) / 500
    assert (counts - 5 / 9).abs().max() < 5 * (5 / 9 * 4 / 9 / 500) ** 0.5
    (_, first), _ = task.sample(3, length=5, places=9, placed="first", generator=seeded())
    assert first.tolist() == [[0, 1, 2, 3, 4]] * 3
    with pytest.raises(PosattnError, match="places=4: 5 numbers need as many"):
        task.sample(3, length=5, places=4, generator=seeded())
    with pytest.raises(PosattnError, match=r"'frist'.*first"):
        task.sample(3, length=5, places=9, placed="frist", generator=seeded())


def test_places_leave_the_numbers_as_they_were() -> None:
    task = tasks.get("sum")
    (x, _), y = task.sample(6, length=4, places=20, generator=seeded(5))
    alone, target = task.sample(6, length=4, generator=seeded(5))
    assert torch.equal(x, alone)
    assert torch.equal(y, target)
    assert torch.equal(task.target(task.sample(6, length=4, places=20, generator=seeded(5))[0]), y)


def test_a_fleet_trains_them_on_several_lengths_and_tests_them_on_longer_ones() -> None:
    options = {"places": 13}
    trial = Trial(
        task="min",
        model=RandomPlaces(**SIZES, encoding="binary", bias=False),
        data=Data(samples=60, batch=10, lengths=(2, 4), options=options),
        optimiser=Optimiser(steps=12, lr=1e-2),
        evaluation=Evaluation(samples=20, sets={"longer": options | {"length": 9}}),
    )
    fleet = Fleet([trial], device="cpu")
    list(fleet.run())
    assert 0 < fleet.scores()[0]["longer"].loss < 100
