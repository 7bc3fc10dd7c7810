"""Does a one-layer Transformer learn to select, and as fast as the theory says?

    posattn run sts-convergence                                                 (minutes on two CPU cores)
    posattn run sts-convergence --preset paper --device cuda                    (minutes on one H200)

Wang et al. 2024, Fig. 1 and Theorems 1 and 2. With one-hot encodings, descent on the population loss is a recursion of
two numbers (`posattn.theory.selection`), which is drawn over what training gives; 1/loss ends as a line of known slope.
"""

from posattn.studies.core.case import Case
from posattn.studies.core.points import Level
from posattn.studies.core.study import register
from posattn.studies.core.views import Panel, ThroughTraining
from posattn.studies.selection.closed_form import Descent, Slope
from posattn.studies.selection.protocol import PROTOCOLS, SelectionStudy

ONE = Level(1.0, "published: → 1")
PANELS = (
    Panel(title="loss", score="validation"),
    Panel(title="1/loss", score="validation", inverse=True, log=False),
    Panel(title="cosine of W with W*", score="cosine W", share=True, log=False, level=ONE),
    Panel(title="cosine of V with V*", score="cosine V", share=True, log=False, level=ONE),
)


@register
class StsConvergence(SelectionStudy):
    name = "sts-convergence"
    question = "Does a one-layer Transformer learn to select tokens, as fast as the theory says?"
    answers = "Fig. 1, Theorems 1 and 2"
    view = ThroughTraining(panels=lambda _: PANELS)
    cost = {"smoke": "seconds", "quick": "3 min, 2 cores", "paper": "3 min, H200"}
    notes = (
        "“closed form” is exact descent on the population loss from zero weights; its 1/loss tends to a line of slope "
        "4η/(T − 1), a third of that after the drop of the step size, drawn from a quarter of all steps on. “surviving "
        "blocks” trains the two blocks that the population gradient does not leave at zero; noise in the others delays "
        "“one-hot”.",
        "The published cosines tend to 1; for one-hot encodings W = g(I − 11ᵀ/T), whose cosine with W* is √(1 − 1/T).",
        "Test sets of the paper preset hold 1,024 samples, for less noise than the paper's 128 have.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        return [
            self.case(self.trial(protocol, "one-hot")),
            self.case(self.trial(protocol, "one-hot", blocks="surviving"), "one-hot, surviving blocks"),
            self.case(self.trial(protocol, "near-orthogonal")),
            self.case(self.trial(protocol, "stochastic")),
            *self.closed_forms(protocol, Descent, Slope),
        ]
