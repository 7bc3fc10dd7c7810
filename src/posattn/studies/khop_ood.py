"""Do models that follow induction hops still do so on letters they have never seen?

    posattn run khop-ood --preset quick                                         (half an hour on two CPU cores)
    posattn run khop-ood --preset paper --device cuda                           (hours on one H200)

Back de Luca et al. 2025, Fig. 5: tested on a disjoint alphabet. The trials are those of `khop-depth`; what that study
has trained is not trained again.
"""

from posattn.studies.base import Case, Study, register
from posattn.studies.khop_depth import KHopDepth


@register
class KHopOod(Study):
    name = "khop-ood"
    question = "Do induction hops work on letters never seen?"
    answers = "Fig. 5"
    axis = "layers"
    tasks = ("khop",)
    seeds = KHopDepth.seeds
    cost = KHopDepth.cost
    notes = ("Cross-entropy on held-out letters beside that on fresh sequences of the training letters.",)

    def cases(self, task: str, preset: str) -> list[Case]:
        return KHopDepth().cases(task, preset)
