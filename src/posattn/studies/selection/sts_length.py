"""Does a selector trained on T tokens select among more?

    posattn run sts-length                                                      (minutes on two CPU cores)
    posattn run sts-length --preset paper --device cuda                         (2 minutes on one H200)

Wang et al. 2024, Fig. 2 and Theorem 3: T = 200, q = 3, tested on 250 … 400 tokens through training. Fixed encodings of
places beyond T were never seen; stochastic ones are always new.
"""

from posattn.studies.core.case import Case
from posattn.studies.core.sentence import Versus
from posattn.studies.core.study import register
from posattn.studies.core.views import Panel, ThroughTraining
from posattn.studies.selection.protocol import ARMS, LONGER, PROTOCOLS, SelectionStudy


def panels(preset: str) -> tuple[Panel, ...]:
    protocol = PROTOCOLS[preset]
    inside = Panel(title=f"T = {protocol.length}, as trained", score="validation")
    return inside, *(Panel(title=f"T = {T}", score=f"T={T}", level=LONGER) for T in protocol.lengths)


@register
class StsLength(SelectionStudy):
    name = "sts-length"
    question = "Does a selector trained on T tokens select among more?"
    answers = "Fig. 2, Theorem 3"
    view = ThroughTraining(
        panels=panels, at="At {test_set}", versus=Versus(usual=ARMS["near-orthogonal"], other=ARMS["stochastic"])
    )
    cost = {"smoke": "seconds", "quick": "3 min, 2 cores", "paper": "2 min, H200"}
    notes = (
        "Published: every fixed encoding ends at 0.15 or more on longer inputs, stochastic ones go to 0. The paper's "
        "loss factor is unknown, so its level is drawn and not compared.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        return [self.case(self.trial(protocol, encoding)) for encoding in ("near-orthogonal", "stochastic")]
