"""How wide must a network be to select, fully connected or with attention?

    posattn run sts-fcn                                                         (minutes on two CPU cores)
    posattn run sts-fcn --preset paper --device cuda                            (minutes on one H200)

Wang et al. 2024, the theorem on fully connected networks: one whose first layer is m wide has a loss of at least
κ(Td − m)(T − q)/(qT(T − 1)), whatever follows. Widths from d to Td are trained here on fresh data at T = 20, beside the
floor and beside selectors of several widths d + d_e; attention needs about d + q·log T.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from posattn import tasks
from posattn.nn import FullyConnected, Model, load
from posattn.studies.core.case import Case
from posattn.studies.core.points import Point, Row
from posattn.studies.core.sentence import brief, listed
from posattn.studies.core.study import register
from posattn.studies.core.views import Derived
from posattn.studies.selection.closed_form import Floor
from posattn.studies.selection.protocol import PROTOCOLS, SelectionStudy, data, sizes
from posattn.theory.selection import fcn_floor
from posattn.train import Evaluation, Optimiser, TestSet, Trial
from posattn.train.random_streams import stream

#: The task at which fully connected networks can be trained, by preset.
SIZES = {
    "smoke": {"length": 8, "subset": 2, "dim": 2},
    "quick": {"length": 20, "subset": 3, "dim": 5, "steps": 3000, "samples": 4096},
    "paper": {"length": 20, "subset": 3, "dim": 5, "steps": 20_000, "samples": 10_000},
}
#: First-layer widths as shares of T·d; d itself comes first.
SHARES = {"smoke": (1.0,), "quick": (0.25, 0.5, 1.0), "paper": (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)}
CODES = {"smoke": (16,), "quick": (16, 32, 64), "paper": (16, 32, 64, 128)}
#: Signs of fewer dimensions are dependent too often: a sample's certificate then does not exist.
FEWEST_FRESH = 32
#: Fresh samples behind a loss for every sample of the test set, and how many are drawn at once.
FRESH, AT_ONCE = 10, 10_000
#: Widths of the layers after the first one.
AFTER = {"smoke": (8,), "quick": (256,), "paper": (512, 512)}


def final_loss(case: Case, rows: list[Row], weights: Path) -> Mapping[str, float]:
    """The computed loss, or that of a trained model on fresh samples."""
    if not case.trial.trained:
        return {"loss": rows[0]["loss"]}
    sizes = {name: case.trial.test_sets[0].options[name] for name in ("length", "subset_size", "dim")}
    return {"loss": fresh_loss(load(weights), sizes, samples=FRESH * rows[0]["evaluation.samples"])}


@register
class StsFcn(SelectionStudy):
    name = "sts-fcn"
    question = "How wide must a network be to select, fully connected or with attention?"
    answers = "theorem on fully connected networks"
    view = Derived(axis="width", figures=("loss",), derive=final_loss)
    choices = {}
    seeds = {"smoke": 2, "quick": 1, "paper": 3}
    cost = {"smoke": "seconds", "quick": "5 min, 2 cores", "paper": "5 min, H200"}
    notes = (
        "Width is that of the first layer, m, for fully connected networks, and d + d_e for selectors. The training "
        "loss of a network may lie below the floor, its loss on fresh data cannot: that is shown, over ten times as "
        "many samples as the test set has (paper: 100,000), with the mean of all tokens, whose loss is known exactly, "
        "as a control variate.",
        "“one hidden layer” has m units and an output; “deep” has further ReLU layers behind them. The floor is exact "
        "and is attained by some function of m linear features; from m = Td on it is 0.",
        "Networks are trained by Adam (lr 1e-3, brought down to 0 by a cosine), selectors by SGD as in the others, "
        "with the defaults of their options: keys=tokens, query=certificate, kappa=0.5, redraw=sample.",
    )

    def sentence(self, points: Sequence[Point]) -> str:
        """Every arm's lowest loss, and the width that it took."""
        arms = dict.fromkeys(point.arm for point in points)
        best = [min((p for p in points if p.arm == arm), key=lambda p: p.median) for arm in arms]
        return f"The lowest loss is {listed([f'{brief(p.median)} for “{p.arm}” (width {p.x:,g})' for p in best])}."

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = dataclasses.replace(PROTOCOLS[preset], **SIZES[preset], lengths=(), subsets=(), every=0)
        length, dim = protocol.length, protocol.dim
        widths = [dim, *(round(share * length * dim) for share in SHARES[preset])]
        found = []
        for arm, after in (("one hidden layer", ()), ("deep", AFTER[preset])):
            for width in widths:
                trial = Trial(
                    task="selection",
                    model=FullyConnected(length=length, dim=dim, widths=(width, *after)),
                    data=data(protocol),
                    optimiser=Optimiser(steps=protocol.steps, lr=1e-3, schedule="cosine"),
                    evaluation=Evaluation(samples=protocol.samples, sets=[TestSet("validation", sizes(protocol))]),
                )
                found.append(Case(task=task, arm=arm, x=width, trial=trial))
        for width in widths:
            floor = Floor(width=width, T=length, q=protocol.subset, d=dim)
            found.append(Case(task=task, arm="floor", x=width, trial=floor))
        for encoding, fewest in (("near-orthogonal", 0), ("stochastic", FEWEST_FRESH)):
            for codes in CODES[preset]:
                if codes >= fewest:
                    trial = self.trial(protocol, encoding, encoding_dim=codes)
                    found.append(self.case(trial, f"selector, {encoding}", x=dim + codes))
        return found


@torch.no_grad()
def fresh_loss(model: Model, options: Mapping[str, Any], *, samples: int) -> float:
    """The loss ½E‖f − y‖² over so many fresh samples, with less noise than their mean has.

    The mean of all tokens is the best function of d linear features, with the loss of `fcn_floor(d)`. How far the
    samples' own mean of that loss is off tells how far that of the model is.
    """
    task, generator = tasks.get("selection"), stream(0, "fresh loss")
    pairs = []
    for start in range(0, samples, AT_ONCE):
        inputs, y = task.sample(min(samples - start, AT_ONCE), **options, generator=generator)
        guesses = model(*inputs), inputs.x.mean(dim=1)
        pairs.append(torch.stack([0.5 * (guess - y).double().square().sum(1) for guess in guesses]))
    both = torch.cat(pairs, dim=1)
    own, known = both.mean(dim=1).tolist()
    covariance = torch.cov(both)
    if covariance[1, 1] < 1e-9:  # all tokens are selected: their mean is the target, but for rounding
        return own
    exact = fcn_floor(options["dim"], T=options["length"], q=options["subset_size"], d=options["dim"])
    return own - (covariance[0, 1] / covariance[1, 1]).item() * (known - exact)
