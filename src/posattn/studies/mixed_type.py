"""Does positional attention help where text and numbers mix?

    posattn run mixed-type --preset quick --task mixed-min                      (half an hour on two CPU cores)
    posattn run mixed-type --preset paper --device cuda                         (hours on one H200)

Back de Luca et al. 2025, Fig. 6: labels, values and a question in words; trained on values in [0, 5] and 20 labels,
tested on [0, 5c] and 20 others. 50,000 samples, batch 1,000, 2,001 epochs, lr 5e-4 with plateau patience 10.
"""

from posattn.nn import Architecture, MixedPositional, MixedStandard
from posattn.studies.base import Case, Study, register
from posattn.train import Data, Evaluation, Optimiser, Trial

RANGE = 5.0
SETTINGS = {  # samples, batch, steps, test samples, scales
    "smoke": (32, 16, 4, 8, (1, 2)),
    "quick": (10_000, 100, 3000, 500, (1, 2, 5, 10)),
    "paper": (50_000, 1000, 50 * 2001, 1000, tuple(range(1, 11))),
}


@register
class MixedType(Study):
    name = "mixed-type"
    question = "Does positional attention help where text and numbers mix?"
    answers = "Fig. 6"
    axis = "scale c"
    tasks = ("mixed-min", "mixed-sum", "mixed-multitask")
    cost = {"smoke": "seconds", "quick": "30 min, 2 cores, a task", "paper": "5 h, H200"}
    notes = (
        "Test sets use labels and distractor marks that training never showed; validation uses the training ones. "
        "“homogeneous” has no biases, but its character embedding does not scale with the numbers, so f(cx) = c·f(x) "
        "does not hold here.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        samples, batch, steps, tested, scales = SETTINGS[preset]
        sets: dict[str, dict[str, object]] = {"validation": {"low": 0.0, "high": RANGE}}
        sets |= {f"c={scale}": {"low": 0.0, "high": RANGE * scale, "held_out": True} for scale in scales}
        models: dict[str, Architecture] = {
            "standard": MixedStandard(),
            "positional": MixedPositional(),
            "homogeneous": MixedPositional(bias=False),
        }
        return [
            Case(
                task=task,
                arm=arm,
                trial=Trial(
                    task=task,
                    model=model,
                    data=Data(samples=samples, batch=batch, options={"low": 0.0, "high": RANGE}),
                    optimiser=Optimiser(
                        steps=steps, lr=5e-4, schedule="plateau" if preset == "paper" else "cosine", patience=10
                    ),
                    evaluation=Evaluation(samples=tested, sets=sets),
                ),
                reference={"experiment": "mixed_type_scale", "arch": arm} if arm != "homogeneous" else {},
            )
            for arm, model in models.items()
        ]
