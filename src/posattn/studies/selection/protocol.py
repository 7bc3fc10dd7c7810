"""What the studies of sparse token selection share: the paper's protocol, its short versions, and its open choices.

Wang, Wei, Hsu, Lee 2024 (arXiv 2406.06893): T = 200 tokens of d = 5 numbers, q = 3 of them selected, encodings of
d_e = 170, online SGD with batches of 256, step size 1 and from half of the 100,000 steps on 1/3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posattn.nn import Selector
from posattn.studies.core.case import Case
from posattn.studies.core.choices import Choice, Number
from posattn.studies.core.points import Level
from posattn.studies.core.study import Study
from posattn.studies.selection.closed_form import Descent, Slope
from posattn.train import Data, Evaluation, Optimiser, TestSet, Trial

#: Batches that are drawn at once; all of them are fresh.
DRAWN_TOGETHER = 50


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Sizes of the task and of the training."""

    length: int  # T
    subset: int  # q
    dim: int  # d
    encoding_dim: int  # d_e
    batch: int
    steps: int
    every: int  # steps between two looks at the test sets
    lengths: tuple[int, ...]  # T_test
    subsets: tuple[int, ...]  # q_test
    samples: int  # in a test set


PROTOCOLS = {
    "smoke": Protocol(
        length=12, subset=2, dim=2, encoding_dim=40, batch=16, steps=8, every=4, lengths=(15, 18), subsets=(1, 3),
        samples=16,
    ),
    "quick": Protocol(
        length=50, subset=3, dim=5, encoding_dim=100, batch=256, steps=4000, every=100, lengths=(60, 75, 90, 100),
        subsets=(1, 2, 4, 6), samples=512,
    ),
    "paper": Protocol(
        length=200, subset=3, dim=5, encoding_dim=170, batch=256, steps=100_000, every=1000,
        lengths=(250, 300, 350, 400), subsets=(1, 2, 4, 6), samples=1024,
    ),
}  # fmt: skip

PAPER = "Wang et al. 2024 (arXiv 2406.06893)"

#: What no source settles, with the default first.
CHOICES = {
    "keys": Choice(("tokens", "with-query")),
    "query": Choice(("certificate", "sum")),
    "query_scale": Choice(("auto",), Number()),
    "kappa": Choice(("0.5", "1")),
    "redraw": Choice(("sample", "step")),
}

WHAT_THEY_MEAN = {
    "keys": {"tokens": "the query attends to the tokens", "with-query": "and to itself"},
    "query": {"certificate": "e_query = E_y(E_yᵀE_y)⁻¹1", "sum": "e_query = Σ e_j"},
    "query_scale": {"auto": "1, or 1/(2q) where the query attends to itself"},
    "kappa": {"0.5": "loss ½E‖f − y‖²", "1": "loss E‖f − y‖²"},
    "redraw": {"sample": "stochastic encodings anew for every sample", "step": "anew for every step"},
}

#: What is published of the loss on longer inputs; its factor is not known.
LONGER = Level(0.15, "published: fixed ≥ 0.15")

#: How the encodings are called in tables: what stays the same for all samples is “fixed”.
ARMS = {"one-hot": "one-hot", "near-orthogonal": "fixed near-orthogonal", "stochastic": "stochastic"}


CLOSED_FORMS = {Descent: "closed form, one-hot", Slope: "slope 4η/(T − 1)"}


class SelectionStudy(Study):
    """A study of the one-layer selector."""

    paper = PAPER
    tasks = ("selection",)
    choices = CHOICES
    seeds = {"smoke": 2, "quick": 2, "paper": 10}

    def trial(self, protocol: Protocol, encoding: str, **options: Any) -> Trial:
        """A selector with one of the encodings, by the study's choices."""
        return selector(protocol, encoding, {name: self.choice(name) for name in self.choices}, **options)

    def closed_forms(self, protocol: Protocol, *kinds: type[Descent]) -> list[Case]:
        """Descent on the population loss by the same step sizes, and what it tends to.

        It is known where the query attends to the tokens alone, and unscaled: else there is none.
        """
        if (self.choice("keys"), self.choice("query_scale")) != ("tokens", "auto"):
            return []
        sizes: dict[str, Any] = {"T": protocol.length, "q": protocol.subset, "d": protocol.dim}
        sizes |= {"lengths": protocol.lengths, "subsets": protocol.subsets, "kappa": float(self.choice("kappa"))}
        steps: dict[str, Any] = {"eta": 1.0, "steps": protocol.steps, "every": protocol.every}
        steps |= {"drop_from": DROP_FROM, "factor": DROP_BY}
        return [Case(task="selection", arm=CLOSED_FORMS[kind], trial=kind(**sizes, **steps)) for kind in kinds]

    def case(self, trial: Trial, arm: str | None = None, **where: Any) -> Case:
        assert isinstance(trial.model, Selector)
        return Case(task="selection", arm=arm or ARMS[trial.model.encoding], trial=trial, **where)

    def remarks(self) -> list[str]:
        chosen = []
        for name in self.choices:
            meaning = WHAT_THEY_MEAN[name].get(self.choice(name))
            chosen.append(f"{name}={self.choice(name)}" + (f" ({meaning})" if meaning else ""))
        return [*super().remarks(), *([f"Choices that no source settles: {'; '.join(chosen)}."] if chosen else [])]


def selector(
    protocol: Protocol,
    encoding: str,
    choices: Mapping[str, str],
    *,
    optimiser: Optimiser | None = None,
    **options: Any,
) -> Trial:
    """A selector with one of the encodings, trained by the protocol; `options` are further ones of the model.

    A table of fixed encodings reaches to the longest test inputs, of which training sees the first T.
    """
    chosen = {name: choice.default for name, choice in CHOICES.items()} | dict(choices)
    kappa, scale = float(chosen["kappa"]), chosen["query_scale"]
    usual = 1 / (2 * protocol.subset) if chosen["keys"] == "with-query" else 1.0
    model = {
        "length": max((protocol.length, *protocol.lengths)) if encoding == "near-orthogonal" else protocol.length,
        "dim": protocol.dim,
        "encoding": encoding,
        "encoding_dim": None if encoding == "one-hot" else protocol.encoding_dim,
        "keys": chosen["keys"],
        "query": chosen["query"],
        "query_scale": usual if scale == "auto" else float(scale),
    }
    return Trial(
        task="selection",
        task_options={} if kappa == 0.5 else {"kappa": kappa},
        model=Selector(**model | options),
        data=data(protocol, chosen["redraw"]),
        optimiser=optimiser or sgd(protocol),
        evaluation=Evaluation(
            samples=protocol.samples, every=protocol.every, sets=test_sets(protocol, longer=encoding != "one-hot")
        ),
    )


def data(protocol: Protocol, redraw: str = "sample") -> Data:
    """Every batch is fresh. Where encodings change with every step, a step is all that is drawn at once."""
    return Data(
        samples=protocol.batch * (DRAWN_TOGETHER if redraw == "sample" else 1),
        batch=protocol.batch,
        options=sizes(protocol, redraw=redraw),
        fresh=True,
    )


#: The step size is 1, and 1/3 from half of all steps on.
DROP_FROM, DROP_BY = 0.5, 1 / 3


def sgd(protocol: Protocol) -> Optimiser:
    return Optimiser(name="sgd", lr=1.0, steps=protocol.steps, schedule="drop", decay_from=DROP_FROM, factor=DROP_BY)


def sizes(protocol: Protocol, **changes: Any) -> dict[str, Any]:
    """Options of the task's samples."""
    return {"length": protocol.length, "subset_size": protocol.subset, "dim": protocol.dim} | changes


def test_sets(protocol: Protocol, *, longer: bool) -> list[TestSet]:
    """The sizes of the training, more tokens where the encodings allow it, and other subset sizes.

    Encodings are drawn anew for every sample of a test set, however training redraws them.
    """
    lengths = {f"T={length}": {"length": length} for length in protocol.lengths if longer}
    subsets = {f"q={size}": {"subset_size": size} for size in protocol.subsets}
    changes: dict[str, dict[str, Any]] = {"validation": {}} | lengths | subsets
    return [TestSet(name, sizes(protocol, redraw="sample", **change)) for name, change in changes.items()]
