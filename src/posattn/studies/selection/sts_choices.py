"""How does the outcome depend on what no source settles?

    posattn run sts-choices                                                     (minutes on two CPU cores)
    posattn run sts-choices --preset paper --device cuda                        (minutes on one H200)

Stochastic encodings, one choice at a time made otherwise: how the query is formed, whether it attends to itself and on
which scale, the factor of the loss, and whether encodings change with every sample or with every step.
"""

import dataclasses

from posattn.studies.core.case import Case
from posattn.studies.core.study import register
from posattn.studies.core.views import Panel, ThroughTraining
from posattn.studies.selection.protocol import CHOICES, PROTOCOLS, SelectionStudy, selector

STEPS = {"smoke": 8, "quick": 3000, "paper": 20_000}


def panels(preset: str) -> tuple[Panel, ...]:
    protocol = PROTOCOLS[preset]
    longest = protocol.lengths[-1]
    return (
        Panel(title=f"loss, T = {protocol.length}, as trained", score="validation"),
        Panel(title=f"loss, T = {longest}", score=f"T={longest}"),
        Panel(title="cosine of W with W*", score="cosine W", share=True, log=False),
    )


@register
class StsChoices(SelectionStudy):
    name = "sts-choices"
    question = "How does the outcome depend on what no source settles?"
    answers = "what the paper leaves open"
    view = ThroughTraining(panels=panels)
    choices = {}
    seeds = {"smoke": 2, "quick": 2, "paper": 3}
    cost = {"smoke": "seconds", "quick": "6 min, 2 cores", "paper": "3 min, H200"}
    notes = (
        "“defaults”: keys are the tokens, the query is the dual certificate, loss ½E‖f − y‖², encodings anew for every "
        "sample, from which each other model differs in what its name says. Losses are shown as trained: those of "
        "kappa=1 are twice as large at the same weights.",
        "“keys=with-query” scales the query by s = 1/(2q), as the query would else attend to itself; the logits then "
        "grow 1/s² times more slowly. “unscaled” has s = 1.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = dataclasses.replace(PROTOCOLS[preset], steps=STEPS[preset])
        changed = {"defaults": {}} | {
            f"{name}={value}": {name: value} for name, choice in CHOICES.items() for value in choice.values[1:]
        }
        found = [self.case(selector(protocol, "stochastic", values), arm) for arm, values in changed.items()]
        unscaled = selector(protocol, "stochastic", {"keys": "with-query", "query_scale": "1"})
        return [*found, self.case(unscaled, "keys=with-query, unscaled")]
