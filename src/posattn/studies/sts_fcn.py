"""How wide must a network be to select, fully connected or with attention?

    posattn run sts-fcn                                                         (minutes on two CPU cores)
    posattn run sts-fcn --preset paper --device cuda                            (minutes on one H200)

Wang et al. 2024, the theorem on fully connected networks: one whose first layer is m wide has a loss of at least
κ(Td − m)(T − q)/(qT(T − 1)), whatever follows. Widths from d to Td are trained here on fresh data at T = 20, beside the
floor and beside selectors of several widths d + d_e; attention needs about d + q·log T.
"""

import dataclasses

from posattn.nn import Connected
from posattn.studies.base import Case, register
from posattn.studies.closed_form import Floor
from posattn.studies.selection import PROTOCOLS, SelectionStudy, data, sizes
from posattn.train import Evaluation, Optimiser, Trial

#: The task at which fully connected networks can be trained, by preset.
SIZES = {
    "smoke": {"length": 8, "subset": 2, "dim": 2, "lengths": (8,)},
    "quick": {"length": 20, "subset": 3, "dim": 5, "lengths": (20,), "steps": 3000, "samples": 4096},
    "paper": {"length": 20, "subset": 3, "dim": 5, "lengths": (20,), "steps": 20_000, "samples": 10_000},
}
#: First-layer widths as shares of T·d; d itself comes first.
SHARES = {"smoke": (1.0,), "quick": (0.25, 0.5, 1.0), "paper": (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)}
CODES = {"smoke": (16,), "quick": (16, 32, 64), "paper": (16, 32, 64, 128)}
#: Signs of fewer dimensions are dependent too often: a sample's certificate then does not exist.
FEWEST_FRESH = 32
#: Widths of the layers after the first one.
AFTER = {"smoke": (8,), "quick": (256,), "paper": (512, 512)}


@register
class StsFcn(SelectionStudy):
    name = "sts-fcn"
    question = "How wide must a network be to select, fully connected or with attention?"
    answers = "theorem on fully connected networks"
    axis = "width"
    choices = {}
    seeds = {"smoke": 2, "quick": 1, "paper": 3}
    cost = {"smoke": "seconds", "quick": "5 min, 2 cores", "paper": "5 min, H200"}
    notes = (
        "Width is that of the first layer, m, for fully connected networks, and d + d_e for selectors. Losses are on "
        "fresh samples; the training loss of a network may lie below the floor, its loss cannot.",
        "“one hidden layer” has m units and an output; “deep” has further ReLU layers behind them. The floor is exact "
        "and is attained by some function of m linear features; from m = Td on it is 0.",
        "Networks are trained by Adam (lr 1e-3, brought down to 0 by a cosine), selectors by SGD as in the others.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = dataclasses.replace(PROTOCOLS[preset], **SIZES[preset], subsets=(), every=0)
        length, dim = protocol.length, protocol.dim
        widths = [dim, *(round(share * length * dim) for share in SHARES[preset])]
        found = []
        for arm, after in (("one hidden layer", ()), ("deep", AFTER[preset])):
            for width in widths:
                trial = Trial(
                    task="selection",
                    model=Connected(length=length, dim=dim, widths=(width, *after)),
                    data=data(protocol),
                    optimiser=Optimiser(steps=protocol.steps, lr=1e-3, schedule="cosine"),
                    evaluation=Evaluation(samples=protocol.samples, sets={"validation": sizes(protocol)}),
                )
                found.append(Case(task=task, arm=arm, x=width, trial=trial))
        for width in widths:
            floor = Floor(width=width, T=length, q=protocol.subset, d=dim)
            found.append(Case(task=task, arm="floor", x=width, trial=floor))
        for encoding, fewest in (("near-orthogonal", 0), ("stochastic", FEWEST_FRESH)):
            for codes in CODES[preset]:
                if codes >= fewest:
                    trial = self.trial(protocol, encoding, encoding_dim=codes)
                    only = dataclasses.replace(trial.evaluation, sets={"validation": sizes(protocol)})
                    trial = dataclasses.replace(trial, evaluation=only)
                    found.append(self.case(trial, f"selector, {encoding}", x=dim + codes))
        return found
