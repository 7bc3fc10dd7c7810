"""Does rotary attention, which knows relative positions, generalise as well?

    posattn run rotary --preset quick --task sum                                (minutes on two CPU cores)
    posattn run rotary --preset paper --device cuda                             (half an hour on one H200)

Back de Luca et al. 2025, appendix: as `ood-scale`, a rotary Transformer on [X ‖ P] against the positional one; here
also on X alone.
"""

from posattn.nn import Positional, Standard
from posattn.studies.core.case import Case
from posattn.studies.core.sentence import Versus
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import (
    AT_SCALE,
    PROTOCOLS,
    TASKS,
    published_losses,
    scale_case,
    sizes,
    trial,
)


@register
class Rotary(Study):
    name = "rotary"
    question = "Does rotary attention, which knows relative positions, generalise as well?"
    answers = "appendix, RoPE"
    view = Curves(axis="scale c", at=AT_SCALE, versus=Versus(usual="rotary, input X‖P", other="positional"))
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "6 min per task, 2 cores", "paper": "30 min, H200"}
    notes = (
        "The published “RoPE” model turned by the head's number instead of the node's, so its logits never changed: "
        "that figure is the standard model's again. Ours turns by the node's place.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        size = sizes(protocol)
        models = {
            "rotary, input X‖P": Standard(**size, rotary=True),
            "rotary, input X": Standard(**size, rotary=True, append_encoding=False),
            "positional": Positional(**size),
        }
        beside = {"rotary, input X‖P": "standard", "positional": "positional"}
        published = {arm: published_losses("rope_scale", task, arch, protocol.scales) for arm, arch in beside.items()}
        return [
            scale_case(task, arm, trial(task, model, protocol), protocol.scales, published.get(arm))
            for arm, model in models.items()
        ]
