"""Optuna as a search: asked for whole batches, told their medians (extra `sweep`)."""

import warnings
from collections.abc import Sequence
from typing import Any

from posattn.errors import missing_extra
from posattn.studies.sweep.space import Range, Setting, Space

#: How often a setting that was asked for before is drawn again.
TRIES = 20


class OptunaSearch:
    """Optuna's tree-structured Parzen estimator, seeded. Settings of one batch are drawn apart from each other."""

    def __init__(self, space: Space, budget: int, batch: int) -> None:
        try:
            import optuna
        except ImportError:
            raise missing_extra("search optuna", "sweep") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=0, constant_liar=True)
        self.study = optuna.create_study(sampler=sampler, direction="minimize")
        self.forgotten = optuna.trial.TrialState.FAIL
        self.space, self.left, self.batch = space, min(budget, space.size or budget), batch
        self.asked: list[Any] = []
        self.seen: set[str] = set()
        # Listed values are known by their place: Optuna's own may be no lists.
        self.distributions: dict[str, Any] = {
            path: optuna.distributions.CategoricalDistribution(range(len(values)))
            if not isinstance(values, Range)
            else optuna.distributions.IntDistribution(int(values.low), int(values.high))
            if values.whole
            else optuna.distributions.FloatDistribution(values.low, values.high, log=True)
            for path, values in space.fields.items()
        }

    def ask(self) -> list[Setting]:
        count = min(self.batch, self.left)
        self.left -= count
        self.asked = [self._new() for _ in range(count)]
        return [self._setting(trial.params) for trial in self.asked]

    def _new(self) -> Any:
        """A setting that was not asked for before, if one comes up soon: among few, Optuna repeats itself."""
        for _ in range(TRIES):
            trial = self.study.ask(self.distributions)
            if repr(trial.params) not in self.seen:
                break
            self.study.tell(trial, state=self.forgotten)
        else:
            trial = self.study.ask(self.distributions)
        self.seen.add(repr(trial.params))
        return trial

    def _setting(self, params: dict[str, Any]) -> Setting:
        fields = self.space.fields
        return {
            path: params[path] if isinstance(values, Range) else values[params[path]] for path, values in fields.items()
        }

    def tell(self, losses: Sequence[float]) -> None:
        for trial, loss in zip(self.asked, losses, strict=True):
            self.study.tell(trial, loss)
