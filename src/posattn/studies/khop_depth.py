"""How deep must a model be to follow k induction hops?

    posattn run khop-depth --task khop --preset quick                           (half an hour on two CPU cores)
    posattn run khop-depth --preset paper --device cuda                         (hours on one H200)

Back de Luca et al. 2025, Fig. 3: up to 3 hops, depth 1 … 8. Task `khop-16` is the setting of Sanford, Hsu, Telgarsky
2024 with up to 16 hops, beside that paper's error table (as accuracy).
"""

from posattn.studies import khop
from posattn.studies.base import Case, Study, register

DEPTHS = {
    "smoke": {"standard": (1, 2), "positional": (1, 2)},
    "quick": {"standard": (2, 3), "positional": (3, 6)},
    "paper": {"standard": tuple(range(1, 9)), "positional": tuple(range(1, 9))},
}


@register
class KHopDepth(Study):
    name = "khop-depth"
    question = "How deep must a model be to follow k induction hops?"
    answers = "Fig. 3"
    axis = "layers"
    metric = "metric"
    measure = "token accuracy"
    tasks = ("khop", "khop-16")
    seeds = {"smoke": 1, "quick": 1, "paper": 3}
    cost = {"smoke": "seconds", "quick": "30 min, 2 cores", "paper": "3 h, H200"}
    notes = ("Accuracy over letters; position 0, always blank, is left out. Both models are also kept for khop-ood.",)

    def cases(self, task: str, preset: str) -> list[Case]:
        return [
            Case(
                task=task,
                arm=arm,
                x=layers,
                trial=khop.trial(task, preset, layers=layers, positional=arm == "positional"),
                reference={"experiment": "khop16", "layers": layers} if (task, arm) == ("khop-16", "standard") else {},
            )
            for arm, depths in DEPTHS[preset].items()
            for layers in depths
        ]
