"""Does positional attention help where text and numbers mix?

    posattn run mixed-type --preset quick --task mixed-min                      (half an hour on two CPU cores)
    posattn run mixed-type --preset paper --device cuda                         (hours on one H200)

Back de Luca et al. 2025, Fig. 6: labels, values and a question in words; trained on values in [0, 5] and 20 labels,
tested on [0, 5c] and 20 others. 50,000 samples, batch 1,000, 2,001 epochs, lr 5e-4 with plateau patience 10. GPT-2
reads the same samples as text: `gpt2-large` in the paper preset, any causal language model with
`--option gpt2=FOLDER|NAME` in all of them.
"""

from posattn.nn import Architecture, MixedPositional, MixedStandard
from posattn.studies.core.case import Case
from posattn.studies.core.choices import Choice, LanguageModel
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import AT_SCALE, STANDARD, published_losses, scale_case, scale_name
from posattn.train import Data, Evaluation, Optimiser, TestSet, Trial
from posattn.train.language.trial import LanguageTrial

RANGE = 5.0
SETTINGS = {  # samples, batch, steps, test samples, scales
    "smoke": (32, 16, 4, 8, (1, 2)),
    "quick": (10_000, 100, 3000, 500, (1, 2, 5, 10)),
    "paper": (50_000, 1000, 50 * 2001, 1000, tuple(range(1, 11))),
}

GPT2 = "GPT-2"
AUTO = "auto"  # the preset's own language model
OWN = {"smoke": None, "quick": None, "paper": "gpt2-large"}


@register
class MixedType(Study):
    name = "mixed-type"
    question = "Does positional attention help where text and numbers mix?"
    answers = "Fig. 6"
    view = Curves(axis="scale c", at=AT_SCALE, versus=STANDARD)
    tasks = ("mixed-min", "mixed-sum", "mixed-multitask")
    cost = {"smoke": "seconds", "quick": "30 min per task, 2 cores", "paper": "5 h, H200"}
    notes = (
        "Test sets use labels and distractor marks that training never showed; validation uses the training ones. "
        "“homogeneous” has no biases, but its character embedding does not scale with the numbers, so f(cx) = c·f(x) "
        "does not hold here.",
    )

    choices = {"gpt2": Choice((AUTO,), LanguageModel(), arms=(GPT2,))}

    def cases(self, task: str, preset: str) -> list[Case]:
        samples, batch, steps, tested, scales = SETTINGS[preset]
        sets = [TestSet("validation", {"low": 0.0, "high": RANGE})]
        sets += [TestSet(scale_name(c), {"low": 0.0, "high": RANGE * c, "held_out": True}) for c in scales]
        models: dict[str, Architecture] = {
            "standard": MixedStandard(),
            "positional": MixedPositional(),
            "homogeneous": MixedPositional(bias=False),
        }
        data = Data(samples=samples, batch=batch, options={"low": 0.0, "high": RANGE})
        schedule = "plateau" if preset == "paper" else "cosine"
        optimiser = Optimiser(steps=steps, lr=5e-4, schedule=schedule, patience=10)
        evaluation = Evaluation(samples=tested, sets=sets)
        trials: dict[str, Trial | LanguageTrial] = {
            arm: Trial(task=task, model=model, data=data, optimiser=optimiser, evaluation=evaluation)
            for arm, model in models.items()
        }
        language_model = self.choice("gpt2")
        if language_model == AUTO:
            language_model = OWN[preset]
        if language_model is not None:
            trials[GPT2] = LanguageTrial(
                task=task,
                model=language_model,
                samples=samples,
                options={"low": 0.0, "high": RANGE},
                test_samples=tested,
                sets=sets,
            )
        names = {GPT2: "gpt2_large_finetuned"}  # in the published table, where they differ from ours
        return [
            scale_case(
                task, arm, trial, scales, published_losses("mixed_type_scale", task, names.get(arm, arm), scales)
            )
            for arm, trial in trials.items()
        ]
