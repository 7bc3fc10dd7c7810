"""Does rotary attention, which knows relative positions, generalise as well?

    posattn run rotary --preset quick --task sum                                (minutes on two CPU cores)
    posattn run rotary --preset paper --device cuda                             (20 minutes on one H200)

Back de Luca et al. 2025, appendix: as `ood-scale`, a rotary Transformer on [X ‖ P] against the positional one; here
also on X alone.
"""

from posattn.nn import Positional, Standard
from posattn.studies.core.study import Case, Study, register
from posattn.studies.positional.numeric import PROTOCOLS, TASKS, sizes, trial


@register
class Rotary(Study):
    name = "rotary"
    question = "Does rotary attention, which knows relative positions, generalise as well?"
    answers = "appendix, RoPE"
    axis = "scale c"
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "6 min, 2 cores, a task", "paper": "20 min, H200"}
    notes = (
        "The published “RoPE” model turned by the head's number instead of the node's, so its logits never changed: "
        "that figure is the standard model's again. Ours turns by the node's place.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        size = sizes(protocol)
        published = {"experiment": "rope_scale"}
        return [
            Case(
                task=task,
                arm="rotary, input X‖P",
                trial=trial(task, Standard(**size, rotary=True), protocol),
                reference=published | {"arch": "standard"},
            ),
            Case(
                task=task,
                arm="rotary, input X",
                trial=trial(task, Standard(**size, rotary=True, append_encoding=False), protocol),
            ),
            Case(
                task=task,
                arm="positional",
                trial=trial(task, Positional(**size), protocol),
                reference=published | {"arch": "positional"},
            ),
        ]
