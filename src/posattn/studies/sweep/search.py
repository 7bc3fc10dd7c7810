"""Which settings of a space are tried: all of them, some at random, or those that Optuna asks for.

A search is asked for a batch of settings, whose trials make fleets together, and told how good each of them was before
it is asked for the next one. All of it follows from the space and what it was told, so a sweep that was interrupted
asks for the same settings again and finds in the store what was finished.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from posattn import checks
from posattn.errors import PosattnError, require
from posattn.studies.sweep.optuna_search import OptunaSearch
from posattn.studies.sweep.space import MOST, Range, Setting, Space
from posattn.train.random_streams import stream

#: Settings of a batch where something is learned from those before it.
BATCH = 16


class Search(Protocol):
    """What chooses settings."""

    def ask(self) -> list[Setting]:
        """The next batch; nothing when all is tried."""
        ...

    def tell(self, losses: Sequence[float]) -> None:
        """How good the settings of that batch were, in their order: lower is better."""
        ...


class Listed:
    """Settings that are known from the start, in batches."""

    def __init__(self, settings: Sequence[Setting], batch: int) -> None:
        self.left, self.batch = list(settings), batch

    def ask(self) -> list[Setting]:
        found, self.left = self.left[: self.batch], self.left[self.batch :]
        return found

    def tell(self, losses: Sequence[float]) -> None:
        del losses


def drawn(space: Space, budget: int, generator: torch.Generator) -> list[Setting]:
    """So many settings at random, no two alike: all of them where there are not more."""
    if space.size is not None and space.size <= 2 * budget:  # one by one, the last would take long to come up
        every = space.every()
        if len(every) <= budget:
            return every
        return [every[at] for at in torch.randperm(len(every), generator=generator)[:budget].tolist()]
    found: dict[str, Setting] = {}
    while len(found) < budget:
        shares = torch.rand(len(space.fields), generator=generator, dtype=torch.float64).tolist()
        setting = {
            path: values.at(share) if isinstance(values, Range) else values[int(share * len(values))]
            for (path, values), share in zip(space.fields.items(), shares, strict=True)
        }
        found.setdefault(repr(setting), setting)
    return list(found.values())


def searching(search: str, space: Space, *, budget: int | None, batch: int | None) -> Callable[[], Search]:
    """What makes a search of this name; each case of a study has one of its own."""
    checks.choice("search", search, ("grid", "random", "optuna"))
    if batch is not None:
        checks.whole("batch", batch, least=1)
    if search == "grid":
        require(budget is None, f"budget={budget}: a grid tries everything. Leave it out, or use --search random.")
        settings = space.settings()
        return lambda: Listed(settings, batch or len(settings))
    if budget is None:
        raise PosattnError(f"search {search} needs a budget: say how many settings to try, --budget 50.")
    count = checks.whole("budget", budget, least=1)
    require(count <= MOST, f"budget={budget}: a sweep tries at most {MOST} settings.")
    if search == "random":
        settings = drawn(space, count, stream(0, "sweep"))
        return lambda: Listed(settings, batch or len(settings))
    OptunaSearch(space, 1, 1)  # says what is not installed before anything starts
    return lambda: OptunaSearch(space, count, batch or BATCH)
