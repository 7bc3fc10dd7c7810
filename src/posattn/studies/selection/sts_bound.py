"""How long does descent take with the step size of Theorem 1 itself?

    posattn run sts-bound --preset paper                                        (seconds on a CPU)

Wang et al. 2024, Theorem 1 asks for η ≤ 1/(20d²), which takes millions of steps; the recursion of
`posattn.theory.selection` takes them in seconds. Nothing is trained here.
"""

from posattn.studies.core.case import Case
from posattn.studies.core.study import register
from posattn.studies.core.views import Panel, ThroughTraining
from posattn.studies.selection.closed_form import Descent
from posattn.studies.selection.protocol import PROTOCOLS, SelectionStudy

#: Steps of the smallest step size; the larger ones take as many fewer as they are larger.
STEPS = {"smoke": 1000, "quick": 1_000_000, "paper": 10_000_000}
POINTS = 200  # on a curve


PANELS = (
    Panel(title="loss", score="validation", log_steps=True),
    Panel(title="1/loss", score="validation", inverse=True, log_steps=True),
)


@register
class StsBound(SelectionStudy):
    name = "sts-bound"
    question = "How long does descent take with the step size of Theorem 1 itself?"
    answers = "Theorem 1"
    view = ThroughTraining(panels=lambda _: PANELS)
    choices = {}
    seeds = {"smoke": 2, "quick": 1, "paper": 1}
    cost = {"smoke": "seconds", "quick": "seconds", "paper": "10 s"}
    notes = (
        "Exact descent on the population loss, κ = ½, one-hot encodings, zero first weights: nothing is trained. The "
        "time that descent takes is inversely proportional to η, so the curves are shifted copies of each other.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        least = 1 / (20 * protocol.dim**2)
        found = []
        for name, eta in (("1/(20d²)", least), ("0.05", 0.05), ("1", 1.0)):
            steps = max(POINTS, round(STEPS[preset] * least / eta))
            descent = Descent(
                T=protocol.length,
                q=protocol.subset,
                d=protocol.dim,
                eta=eta,
                steps=steps,
                every=max(1, steps // POINTS),
            )
            found.append(Case(task=task, arm=f"η = {name}", trial=descent))
        return found
