"""Do models that follow induction hops still do so on letters they have never seen?

    posattn run khop-ood --preset quick                                         (a quarter of an hour on two cores)
    posattn run khop-ood --preset paper --device cuda                           (half an hour on one H200)

Back de Luca et al. 2025, Fig. 5: tested on a disjoint alphabet. The trials are those of `khop-depth`; what that study
has trained is not trained again.
"""

from posattn.studies.core.study import register
from posattn.studies.core.views import CurvesOverCases
from posattn.studies.positional.khop_protocol import TABLES_NOTE, KHopStudy
from posattn.studies.positional.numeric_protocol import STANDARD


@register
class KHopOod(KHopStudy):
    name = "khop-ood"
    question = "Do induction hops work on letters never seen?"
    answers = "Fig. 5"
    view = CurvesOverCases(
        axis="layers", at="On held-out letters, with {x} layer{s},", versus=STANDARD, decided_on="held-out letters"
    )
    tasks = ("khop",)
    notes = (
        "Cross-entropy on held-out letters beside that on fresh sequences of the training letters.",
        TABLES_NOTE,
    )
