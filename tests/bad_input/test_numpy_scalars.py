"""NumPy's scalars are numbers: what they describe is what Python's own numbers describe."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from posattn import compile as compiler
from posattn import encodings, nn, tasks
from posattn.compile import library, word
from posattn.theory import homogeneity, selection
from posattn.train import Data, Evaluation, Optimiser, Trial

from .calls import SIZES, SMALL, seeded

pytestmark = pytest.mark.usefixtures("as_users_run_it")

WHOLE = (np.int64, np.int32, np.uint8)
REAL = (np.float64, np.float32)


def sampled(name: str, **options: Any) -> Callable[[Any, Any], Any]:
    def draw(whole: Any, real: Any) -> Any:
        numbers = {"count": 2, "low": -3.0, "high": 3.0, "avoid": (-0.5, 0.5), **options}
        given = {
            key: tuple(map(real, value)) if isinstance(value, tuple) else (whole if type(value) is int else real)(value)
            for key, value in numbers.items()
        }
        return tasks.get(name).sample(given.pop("count"), generator=seeded(), **given)[1]

    return draw


def weights(model: torch.nn.Module) -> list[torch.Tensor]:
    return list(model.state_dict().values())


MADE: dict[str, Callable[[Any, Any], Any]] = {
    "Positional": lambda whole, real: nn.Positional(**{name: whole(size) for name, size in SMALL.items()}).to_json(),
    "GPTArchitecture": lambda whole, real: nn.GPTArchitecture(layers=whole(1), embed_dim=whole(6)).to_json(),
    "FullyConnected": lambda whole, real: nn.FullyConnected(widths=(whole(3), whole(2))).to_json(),
    "Selector": lambda whole, real: nn.Selector(length=whole(9), query_scale=real(0.5)).to_json(),
    "PositionalTransformer": lambda whole, real: weights(
        nn.PositionalTransformer(**{name: whole(size) for name, size in SMALL.items()}, generator=seeded())
    ),
    "one-hot": lambda whole, real: encodings.make("one-hot", whole(5)),
    "binary": lambda whole, real: encodings.make("binary", whole(5), dim=whole(3)),
    "stochastic": lambda whole, real: encodings.make("stochastic", whole(5), dim=whole(4), generator=seeded()),
    "sum": sampled("sum", length=4),
    "shortest-path": sampled("shortest-path", length=4),
    "all-pairs": lambda whole, real: tasks.get("all-pairs").sample(
        whole(2), nodes=whole(3), high=real(3.0), absent=real(9.5), potential=real(2.0), generator=seeded()
    )[1],
    "widest-path": lambda whole, real: tasks.get("widest-path").sample(
        whole(2), nodes=whole(3), high=real(3.0), shift=real(0.5), generator=seeded()
    )[1],
    "reachability": lambda whole, real: tasks.get("reachability").sample(
        whole(2), nodes=whole(3), degree=real(1.25), generator=seeded()
    )[1],
    "warping": lambda whole, real: tasks.get("warping").sample(whole(2), length=whole(3), generator=seeded())[1],
    "mixed-min": sampled("mixed-min"),
    "selection": lambda whole, real: tasks.get("selection").sample(
        whole(2), length=whole(6), subset_size=whole(2), dim=whole(3), generator=seeded()
    )[1],
    "khop": lambda whole, real: tasks.get("khop", letters=whole(3)).sample(whole(2), hops=whole(2), generator=seeded())[
        1
    ],
    "Trial": lambda whole, real: (
        Trial(
            task="sum",
            model=SIZES,
            data=Data(samples=whole(8), batch=whole(4), options={"length": whole(4), "low": real(-0.5)}),
            optimiser=Optimiser(steps=whole(3), lr=real(0.25)),
            evaluation=Evaluation(samples=whole(2)),
            seed=whole(1),
        ).id
    ),
    "library": lambda whole, real: str(library.get("sort", whole(4))),
    "broadcast": lambda whole, real: str(library.get("broadcast", whole(4), source=whole(2))),
    "compile": lambda whole, real: compiler.compile(library.get("sort", 4), domain=real(8.0))(torch.tensor([3.0, 1.0])),
    "expression": lambda whole, real: str(word("x") * real(0.5) + whole(3)),
    "closed form": lambda whole, real: selection.loss(real(1.0), real(2.0), whole(6), whole(2), whole(3), real(0.5)),
    "redraw factor": lambda whole, real: homogeneity.redraw_factor(real(2.0)),
}


@pytest.mark.parametrize("real", REAL)
@pytest.mark.parametrize("whole", WHOLE)
@pytest.mark.parametrize("name", MADE)
def test_numpy_scalars_are_numbers(name: str, whole: Any, real: Any) -> None:
    assert same(MADE[name](whole, real), MADE[name](int, float))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, list):
        return all(map(same, one, other))
    return bool(one == other)


def test_what_was_described_by_numpy_is_json() -> None:
    described: dict[str, Any] = {"length": np.int64(4), "bias": np.bool_(False)}
    sizes = nn.Positional(**described)
    assert json.loads(sizes.to_json())["length"] == 4
    assert sizes == nn.Positional(length=4, bias=False)
