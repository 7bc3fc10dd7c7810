"""Does a model trained on numbers in [−2, 2] work on [−2c, 2c]?

    posattn run ood-scale --preset quick --task sum --task min --task sort      (5 minutes on two CPU cores)
    posattn run ood-scale --preset paper --device cuda                          (about 20 minutes on one H200)

Back de Luca et al. 2025, Fig. 4: length 8, 30,000 samples, c = 1 … 10, ten runs, the last epoch's value.
"""

from posattn.studies.core.case import Case
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.compiled_programs import ExactTrial
from posattn.studies.positional.numeric_protocol import (
    AT_SCALE,
    PROTOCOLS,
    RANGE,
    STANDARD,
    TASKS,
    models,
    published_losses,
    scale_case,
    test_sets,
    trial,
)


@register
class OodScale(Study):
    name = "ood-scale"
    question = "Does a model trained on [−2, 2] work on [−2c, 2c]?"
    answers = "Fig. 4"
    view = Curves(axis="scale c", at=AT_SCALE, versus=STANDARD)
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "5 min, 2 cores, 3 tasks", "paper": "20 min, H200"}
    notes = (
        "“homogeneous” is the positional model without biases, trained by the paper's schedule like the others; "
        "“homogeneous, decayed” takes the same number of steps from lr 1e-3 down to 0 by a cosine, after a warm-up of "
        "2 %, with gradients clipped at 1. The quick preset does so with all three.",
        "“compiled” is not trained: its weights are compiled from a parallel program (posattn compile) for this "
        "domain, and its error is that of float32 sums.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        found = models(protocol)
        trials = {arm: trial(task, model, protocol) for arm, model in found.items()}
        if preset == "paper":
            trials["homogeneous, decayed"] = trial(task, found["homogeneous"], protocol.decayed())
        compiled = ExactTrial(
            task=task,
            length=8,
            domain=RANGE * max(protocol.scales),
            samples=protocol.test_samples,
            sets=test_sets(protocol, length=8),
        )
        return [
            scale_case(task, arm, one, protocol.scales, published_losses("scale", task, arm, protocol.scales))
            for arm, one in (*trials.items(), ("compiled", compiled))
        ]
