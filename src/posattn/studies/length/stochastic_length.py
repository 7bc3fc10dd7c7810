"""Do stochastic encodings let a positional Transformer work on longer inputs than it was trained on?

    posattn run stochastic-length --task sum                                    (minutes on two CPU cores)
    posattn run stochastic-length --preset paper                                (an hour and a half on two CPU cores)

One step past both papers: the positional Transformer with numbers at places of a longer range, drawn anew for every
sample, beside the same model with numbers at the first places. Trained on lengths 2 … 8, tested up to 32.
"""

from dataclasses import dataclass

from posattn.nn import RandomPlaces
from posattn.studies.core.case import Case, Place
from posattn.studies.core.sentence import Versus
from posattn.studies.core.study import Study, register
from posattn.studies.core.views import Curves
from posattn.studies.positional.numeric_protocol import RANGE
from posattn.train import Data, Evaluation, Optimiser, TestSet, Trial

TRAINED = tuple(range(2, 9))
TESTED = {"smoke": (8, 12), "quick": (8, 12, 16, 32), "paper": (8, 10, 12, 16, 24, 32)}
ARMS = {"stochastic": "anywhere", "fixed": "first"}


@dataclass(frozen=True, kw_only=True)
class Protocol:
    samples: int  # that are drawn at once; all of them are fresh
    batch: int
    steps: int
    places: int = 32
    encoding_dim: int = 32
    embed_dim: int = 64
    layers: int = 4
    test_samples: int = 1000


PROTOCOLS = {
    "smoke": Protocol(samples=56, batch=8, steps=8, embed_dim=8, encoding_dim=8, layers=2, test_samples=16),
    "quick": Protocol(samples=8960, batch=128, steps=3000),
    "paper": Protocol(samples=35_840, batch=512, steps=30_000),
}


@register
class StochasticLength(Study):
    name = "stochastic-length"
    question = "Do stochastic encodings let a positional Transformer work on longer inputs?"
    answers = "one step past"
    paper = "both papers"
    view = Curves(
        axis="length", at="At length {x}, trained on up to 8,", versus=Versus(usual="fixed", other="stochastic")
    )
    tasks = ("sum", "min", "max", "sort")
    seeds = {"smoke": 2, "quick": 1, "paper": 3}
    cost = {"smoke": "seconds", "quick": "5 min per task, 2 cores", "paper": "95 min, 2 cores"}
    notes = (
        "Both arms are the same model without biases, with 32 places in sinusoidal encodings; “stochastic” trains and "
        "tests with places drawn anew for every sample, and no sample is seen twice; “fixed” with the first places, of "
        "which it has seen eight.",
        "Losses of different lengths are not on one scale: a sum of more numbers is larger.",
    )

    def cases(self, task: str, preset: str) -> list[Case]:
        protocol = PROTOCOLS[preset]
        tested = {f"length {length}": length for length in TESTED[preset]}
        found = []
        for arm, placed in ARMS.items():
            options = {"low": -RANGE, "high": RANGE, "places": protocol.places, "placed": placed}
            trial = Trial(
                task=task,
                model=RandomPlaces(
                    length=protocol.places,
                    layers=protocol.layers,
                    embed_dim=protocol.embed_dim,
                    hidden_dim=protocol.embed_dim,
                    encoding="sinusoidal",
                    encoding_dim=protocol.encoding_dim,
                    bias=False,
                ),
                data=Data(samples=protocol.samples, batch=protocol.batch, options=options, lengths=TRAINED, fresh=True),
                optimiser=Optimiser(
                    steps=protocol.steps, lr=1e-3, schedule="cosine", warmup=protocol.steps // 50, clip=1.0
                ),
                evaluation=Evaluation(
                    samples=protocol.test_samples,
                    sets=[TestSet(name, options | {"length": length}) for name, length in tested.items()],
                ),
            )
            places = {name: (Place(name, float(length)),) for name, length in tested.items()}
            found.append(Case(task=task, arm=arm, trial=trial, places=places))
        return found
