"""How does a trained selector do on other lengths and other subset sizes?

    posattn run sts-ood                                                         (minutes on two CPU cores)
    posattn run sts-ood --preset paper --device cuda                            (minutes on one H200)

Wang et al. 2024, Fig. 4: the loss at the end of training by T_test and by q_test. The models are those of
sts-convergence and sts-length: what one study has trained, the others find in the store.
"""

import dataclasses
from collections.abc import Sequence

from posattn.studies.core.case import Case, Place
from posattn.studies.core.points import Point
from posattn.studies.core.sentence import Versus, compared
from posattn.studies.core.study import register
from posattn.studies.core.views import Curves
from posattn.studies.selection.closed_form import Descent
from posattn.studies.selection.protocol import ARMS, LONGER, PROTOCOLS, Protocol, SelectionStudy

BY_LENGTH, BY_SUBSET = "by length T", "by subset size q"


def places(protocol: Protocol) -> dict[str, tuple[Place, ...]]:
    """Where the test sets stand. The sizes of the training belong to both panels."""

    def at(name: str, size: int, panel: str) -> Place:
        return Place(name, float(size), panel)

    trained = at("validation", protocol.length, BY_LENGTH), at("validation", protocol.subset, BY_SUBSET)
    lengths = {f"T={length}": (at(f"T={length}", length, BY_LENGTH),) for length in protocol.lengths}
    subsets = {f"q={size}": (at(f"q={size}", size, BY_SUBSET),) for size in protocol.subsets}
    return {"validation": trained} | lengths | subsets


@register
class StsOod(SelectionStudy):
    name = "sts-ood"
    question = "How does a trained selector do on other lengths and other subset sizes?"
    answers = "Fig. 4"
    view = Curves(axis="T_test or q_test", levels={BY_LENGTH: LONGER})
    cost = {"smoke": "seconds", "quick": "3 min, 2 cores", "paper": "3 min, H200"}
    notes = (
        "One-hot encodings have no places beyond T. The closed form uses the gap and the value that it has "
        "learned at T. Sizes as in training are in both panels.",
        "For smaller subsets than in training, the value v that training has found is too large, as the closed form "
        "confirms.",
        "Published: every fixed encoding ends at 0.15 or more on longer inputs, stochastic ones go to 0.",
    )

    def sentence(self, points: Sequence[Point]) -> str:
        """How the fixed encoding does beside the stochastic one on the longest inputs."""
        longer = [dataclasses.replace(p, task=self.tasks[0]) for p in points if p.task == BY_LENGTH]
        versus = Versus(usual=ARMS["near-orthogonal"], other=ARMS["stochastic"])
        said = compared(longer, versus, at="At {test_set}", measure=self.view.measure)
        return said or self.view.sentence(points)

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        trained = [self.trial(protocol, encoding) for encoding in ("one-hot", "near-orthogonal", "stochastic")]
        cases = [*map(self.case, trained), *self.closed_forms(protocol, Descent)]
        return [dataclasses.replace(case, places=places(protocol)) for case in cases]
