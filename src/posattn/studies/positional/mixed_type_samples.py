"""How many samples does each model need where text and numbers mix?

    posattn run mixed-type-samples --preset quick --task mixed-min              (an hour on two CPU cores)
    posattn run mixed-type-samples --preset paper --seeds 3 --device cuda       (3 h on one H200)

Back de Luca et al. 2025, the sample study in the authors' public results: 20,000 … 100,000 samples, 2,001 epochs
whatever their number, otherwise as in `mixed-type`. The trials with 50,000 samples are those of `mixed-type`; what that
study has trained is not trained again. The published runs with 50,000 samples are others than those of Fig. 6.
"""

from dataclasses import replace

from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import CurvesOverCases
from posattn.studies.positional.mixed_type_protocol import MODELS, PROTOCOLS, TASKS, UNREAD, UNSEEN
from posattn.studies.positional.numeric_protocol import SCALES, STANDARD, published_losses, scale_name

SAMPLES = {"smoke": (32, 64), "quick": (2_000, 10_000), "paper": (20_000, 35_000, 50_000, 75_000, 100_000)}
SHOWN = (3, 10)  # of the scales


@register
class MixedTypeSamples(Study):
    name = "mixed-type-samples"
    question = "How many samples does each model need where text and numbers mix?"
    answers = "published runs"
    view = CurvesOverCases(
        axis="training samples",
        at="With {x} training samples, at three times the training range,",
        versus=STANDARD,
        decided_on="c=3",
    )
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "1 h per task, 2 cores", "paper": "11 h, H200"}
    notes = (UNSEEN, UNREAD)

    def cases(self, task: str, preset: str) -> list[Case]:
        cases = []
        # the paper preset tests at every scale, so that its trials with 50,000 samples are those of `mixed-type`
        protocol = replace(PROTOCOLS[preset], scales=SCALES if preset == "paper" else SHOWN)
        hidden = {scale_name(scale): () for scale in protocol.scales if scale not in SHOWN}
        for samples in SAMPLES[preset]:
            steps = 2001 * (samples // protocol.batch) if preset == "paper" else protocol.steps
            sized = replace(protocol, samples=samples, steps=steps)
            for arm, model in MODELS.items():
                published = published_losses("mixed_type_sample", task, arm, SHOWN, samples=samples)
                trial = sized.trial(task, model)
                cases.append(Case(task=task, arm=arm, x=samples, trial=trial, places=hidden, published=published))
        return cases
