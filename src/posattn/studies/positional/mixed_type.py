"""Does positional attention help where text and numbers mix?

    posattn run mixed-type --preset quick --task mixed-min                      (half an hour on two CPU cores)
    posattn run mixed-type --preset paper --device cuda                         (two hours on one H200)

Back de Luca et al. 2025, Fig. 6: labels, values and a question in words; trained on values in [0, 5] and 20 labels,
tested on [0, 5c] and 20 others. 50,000 samples, batch 1,000, 2,001 epochs, lr 5e-4 with plateau patience 10. GPT-2
reads the same samples as text: `gpt2-large` in the paper preset, any causal language model with
`--option gpt2=FOLDER|NAME` in all of them.
"""

from dataclasses import replace

from posattn.compile.programs.mixed import NODES
from posattn.studies.core.case import Case, Place
from posattn.studies.core.choices import Choice, LanguageModel
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.compiled_programs import ExactTrial
from posattn.studies.positional.mixed_type_protocol import MODELS, PROTOCOLS, SEEN, TASKS, TRAINING, UNREAD, UNSEEN
from posattn.studies.positional.numeric_protocol import AT_SCALE, STANDARD, published_losses, scale_case
from posattn.train.language.trial import LanguageTrial
from posattn.train.runnable import Runnable

GPT2, GATED_ARM = "GPT-2", "gated"
AUTO = "auto"  # the preset's own language model
OWN = {"smoke": None, "quick": None, "paper": "gpt2-large"}


@register
class MixedType(Study):
    name = "mixed-type"
    question = "Does positional attention help where text and numbers mix?"
    answers = "Fig. 6"
    view = Curves(axis="scale c", at=AT_SCALE, versus=STANDARD)
    tasks = TASKS
    cost = {"smoke": "seconds", "quick": "30 min per task, 2 cores", "paper": "2 h, H200"}
    notes = (
        UNSEEN,
        UNREAD,
        "“gated” sees of the characters only which of them are equal, so that unseen labels are like any others, and "
        "numbers only through gates: f(cx) = c·f(x). Which characters are compared is given. It takes 5,000 steps "
        "(quick: 3,000) from lr 1e-2 down to 0 by a cosine.",
        "“compiled” is not trained: its weights are compiled from a program of three rounds that compares characters "
        "by their difference, so unseen labels are like any others.",
    )

    choices = {"gpt2": Choice((AUTO,), LanguageModel(), arms=(GPT2,))}

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        trials: dict[str, Runnable] = {arm: protocol.trial(task, model) for arm, model in MODELS.items()}
        trials[GATED_ARM] = protocol.gated_trial(task)
        trials["compiled"] = ExactTrial(
            task=task,
            length=NODES,
            domain=TRAINING["high"] * max(protocol.scales),
            samples=protocol.test_samples,
            sets=protocol.test_sets(),
        )
        language_model = self.choice("gpt2")
        if language_model == AUTO:
            language_model = OWN[preset]
        if language_model is not None:
            trials[GPT2] = LanguageTrial(
                task=task,
                model=language_model,
                samples=protocol.samples,
                options=dict(TRAINING),
                test_samples=protocol.test_samples,
                sets=protocol.test_sets(),
            )
        names = {GPT2: "gpt2_large_finetuned"}  # in the published table, where they differ from ours
        scales = protocol.scales
        found = [
            scale_case(
                task, arm, trial, scales, published_losses("mixed_type_scale", task, names.get(arm, arm), scales)
            )
            for arm, trial in trials.items()
        ]
        return [
            replace(case, places={**case.places, SEEN: (Place(SEEN),)}) if case.arm == GATED_ARM else case
            for case in found
        ]
