"""How the models that come with the package were trained, and what they cannot do: what their cards say."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Story:
    """What models of one kind share. `arm` is their name in the study, `measured` says what their losses are.

    `arms` and `measures` have those of tasks that differ.
    """

    study: str
    arm: str
    training: str
    limits: str
    measured: str = "Mean squared error on [−2c, 2c], lists of eight numbers, 1,000 samples each."
    arms: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, str] = field(default_factory=dict)

    def command(self, task: str) -> str:
        """What trains it again, as seed 0."""
        arm = self.arms.get(task, self.arm)
        named = f'"{arm}"' if " " in arm else arm
        return f"posattn run {self.study} --preset paper --task {task} --model {named} --seeds 1"

    def losses(self, task: str) -> str:
        return self.measures.get(task, self.measured)


_PAPER = (
    "The protocol of Back de Luca et al. 2025: 30,000 lists of eight numbers in [−2, 2], batch 1,000, 60,030 steps "
)
_EIGHT = "Lists of eight numbers, as in training. "
STORIES = {
    "standard": Story(
        study="ood-scale",
        arm="standard",
        training=_PAPER + "of Adam (lr 5e-4, lowered on plateaus), float32, one H200. Seed 0.",
        limits=_EIGHT + "Attention depends on the numbers, and beyond [−2, 2] the loss grows quickly: it is here to be "
        "compared with.",
    ),
    "positional": Story(
        study="ood-scale",
        arm="positional",
        training=_PAPER + "of Adam (lr 5e-4, lowered on plateaus), float32, one H200. Seed 0.",
        limits=_EIGHT + "Attention depends on positions alone. The loss still grows with the scale: compare c = 1 and "
        "c = 10.",
    ),
    "homogeneous": Story(
        study="ood-scale",
        arm="homogeneous, decayed",
        training=_PAPER + "of Adam from lr 1e-3 down to 0 by a cosine, clipped at 1, float32, one H200. Seed 0.",
        limits=_EIGHT + "It has no biases, so f(cx) = c·f(x) for c > 0: the loss grows as c², and no faster. It knows "
        "nothing of shifts.",
    ),
    "looped": Story(
        study="length-scale",
        arm="scale + shift",
        training="Up to eight numbers in [−2, 2] (graphs of up to six nodes, weights in [0, 2]), 8,000 steps of Adam "
        "on batches of 128, then least squares in float64 (`posattn.train.polish`). Seed 0.",
        limits="Any length, in float64. The schedule is given, the step is learned; `posattn bounds` gives its error "
        "for every input at a length. Graphs are square tables of weights, written row by row.",
        arms={"sum": "scale + linear", "all-pairs": "scale + potential"},
        measures=dict.fromkeys(("all-pairs", "widest-path"), "Mean squared error, four graphs each."),
    ),
    "gated": Story(
        study="mixed-type",
        arm="gated",
        training="50,000 prompts of 20 labels with values in [0, 5], batch 1,000, 5,000 steps of Adam from lr 1e-2 "
        "down to 0 by a cosine, clipped at 1, float32, two CPU cores. Seed 0.",
        limits="Prompts of 90 characters and 8 numbers, as the task writes them. Which characters are compared is "
        "given; what follows from it is learned. Labels may be any, and f(cx) = c·f(x) for c > 0.",
        measured="Mean squared error with values in [0, 5c] and labels that training never showed (validation: those "
        "of training), 1,000 samples each.",
    ),
    "tables": Story(
        study="khop-depth",
        arm="by tables",
        training="50,000 sequences of 98 letters, batch 16, 500 steps of Adam from lr 1e-2 down to 0 by a cosine, "
        "clipped at 1, float32, two CPU cores. Seed 0.",
        limits="Any length. Who reads whom and that nodes keep tables is given; what nodes do is learned. It found "
        "every letter of its test sets, which is no proof.",
        measured="Cross-entropy over all positions, 2,500 sequences each, with k uniform in 0 … 3 unless the name says "
        "otherwise; held-out letters were never seen in training.",
    ),
}
