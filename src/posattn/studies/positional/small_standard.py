"""Is the standard Transformer only too large, and would a smaller one generalise?

    posattn run small-standard --preset quick                                   (minutes on two CPU cores)
    posattn run small-standard --preset paper --device cuda                     (half an hour on one H200)

Back de Luca et al. 2025, appendix: standard Transformers with MLPs of width 2 … 16 and 1 or 4 layers, on sum and min.
"""

from posattn.nn import Standard
from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import AT_SCALE, PROTOCOLS, published_losses, scale_case, sizes, trial

WIDTHS = {"smoke": (2, 4), "quick": (2, 16), "paper": (2, 4, 8, 16)}
EXPERIMENTS = {1: "small_one_layer", 4: "small_log_layers"}


@register
class SmallStandard(Study):
    name = "small-standard"
    question = "Is the standard Transformer only too large?"
    answers = "appendix, small networks"
    view = Curves(axis="scale c", at=AT_SCALE)
    tasks = ("sum", "min")
    cost = {"smoke": "seconds", "quick": "8 min, 2 cores", "paper": "30 min, H200"}

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        cases = []
        for layers, experiment in EXPERIMENTS.items():
            for width in WIDTHS[preset]:
                model = Standard(**sizes(protocol, layers=layers, hidden_dim=width))
                published = published_losses(
                    experiment, task, "standard", protocol.scales, layers_or_width=f"layers{layers}_mlp{width}"
                )
                arm = f"{layers} deep, {width} wide"
                cases.append(scale_case(task, arm, trial(task, model, protocol), protocol.scales, published))
        return cases
