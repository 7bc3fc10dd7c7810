"""One model of a study, to be repeated over seeds, and where its scores stand in tables and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from posattn.train.runnable import Runnable


@dataclass(frozen=True)
class Place:
    """Where the final score on a test set stands. Test sets at the same place make one point, their mean.

    `group` is the point's name in tables, `x` its place on the axis (None: it is in tables only), and `panel` the
    picture it is drawn in (None: that of the case's task).
    """

    group: str
    x: float | None = None
    panel: str | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """One trained or computed thing of a study.

    `arm` names its curve. Where the study's axis is a matter of training (samples, depth), `x` is the case's place on
    it. Where the axis runs through the test sets, `places` says where each of them stands. `published` are the
    published figures by the name of the point, one per run.
    """

    task: str
    arm: str
    trial: Runnable
    x: float | None = None
    places: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)
    published: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def seeded(self, seed: int) -> Runnable:
        """The trial of one seed, made once: its id is asked for again and again."""
        made = self.__dict__.setdefault("_seeded", {})
        if seed not in made:
            made[seed] = self.trial.seeded(seed)
        return made[seed]

    @property
    def test_sets(self) -> list[str]:
        return [one.name for one in self.trial.test_sets]

    def placed(self) -> dict[Place, list[str]]:
        """The test sets by the place that they share."""
        found: dict[Place, list[str]] = {}
        for test_set in self.test_sets:
            for place in self.places.get(test_set, (Place(test_set, self.x),)):
                found.setdefault(place, []).append(test_set)
        return found
