"""What does a positional Transformer gain from knowing its task's symmetry?

    posattn run symmetry --task min                                             (three minutes on two CPU cores)
    posattn run symmetry --preset paper --seeds 3 --device cuda                 (10 minutes on one H200)

One step past the paper, at its sizes: scale alone, f(cx) = c·f(x), and for min, median and sort scale and shift,
f(cx + t) = c·f(x) + t. Tested on [−2c, 2c] as in Fig. 4 (Back de Luca et al. 2025), beside the published losses of the
positional model, and on [t − 2, t + 2].
"""

from dataclasses import replace

from posattn.nn import Positional
from posattn.studies.core.case import Case, Place
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import (
    PROTOCOLS,
    RANGE,
    TASKS,
    published_losses,
    scale_places,
    sizes,
    trial,
)
from posattn.train import TestSet

SHIFTED = ("min", "median", "sort")
#: Adam's settings with shift. With the usual β₂ of 0.999 whole layers die at this rate within 60,030 steps.
SHIFTED_ADAM = {"lr": 4e-3, "betas": (0.9, 0.99)}
SHIFTS = {"smoke": (10,), "quick": (10, 1000), "paper": (1, 10, 100, 1000)}


@register
class Symmetry(Study):
    name = "symmetry"
    question = "What does a positional Transformer gain from knowing its task's symmetry?"
    answers = "one step past Fig. 4"
    view = Curves(axis="scale c, or shift t", published="positional")
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "5 min per task, 2 cores", "paper": "10 min, H200, 3 seeds"}
    notes = (
        "“scale” is the model without biases, “scale + shift” the one whose MLP sees differences alone; the published "
        "losses are those of the positional model. Both take the paper's number of steps, from lr 1e-3 (with shift "
        "4e-3, and Adam's β₂ = 0.99) down to 0 by a cosine, after a warm-up of 2 %, with gradients clipped at 1.",
        "Shifted test sets hold numbers in [t − 2, t + 2]. Losses there are those of float32: at t = 1,000 its numbers "
        "lie 6e-5 apart.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset] if preset != "paper" else PROTOCOLS[preset].decayed()
        size = sizes(protocol)
        trials = {"scale": trial(task, Positional(**size, symmetry=("scale",)), protocol)}
        if task in SHIFTED:
            model = Positional(**size, symmetry=("scale", "shift"))
            shifted = trial(task, model, protocol)
            trials["scale + shift"] = replace(shifted, optimiser=replace(shifted.optimiser, **SHIFTED_ADAM))
        places = scale_places(protocol.scales)
        places["c=1"] = (*places["c=1"], Place("shift 0", 0.0, f"{task}, shifted"))
        sets = []
        for shift in SHIFTS[preset]:
            name = f"shift {shift}"
            sets.append(TestSet(name, {"length": 8, "low": shift - RANGE, "high": shift + RANGE}))
            places[name] = (Place(name, float(shift), f"{task}, shifted"),)
        published = published_losses("scale", task, "positional", protocol.scales)
        found = []
        for arm, one in trials.items():
            one = replace(one, evaluation=replace(one.evaluation, sets=(*one.evaluation.sets, *sets)))
            found.append(Case(task=task, arm=arm, trial=one, places=places, published=published))
        return found
