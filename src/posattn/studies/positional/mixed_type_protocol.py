"""What the mixed-type studies share: the models, their training, and the test sets.

50,000 samples, batch 1,000, 2,001 epochs, Adam 5e-4 with plateau patience 10 (Back de Luca et al. 2025, section 7 and
appendix). Training draws values in [0, 5] with 20 labels; test sets draw them in [0, 5c] with 20 others.
"""

from dataclasses import dataclass, replace

from posattn.nn import Architecture, MixedGated, MixedPositional, MixedStandard
from posattn.studies.positional.numeric_protocol import SCALES, VALIDATION, scale_name
from posattn.tasks.mixed import DECIDES, compared
from posattn.train import Data, Evaluation, Optimiser, TestSet, Trial

TASKS = ("mixed-min", "mixed-sum", "mixed-multitask")
TRAINING = {"low": 0.0, "high": 5.0}  # the range of training values
MODELS: dict[str, Architecture] = {
    "standard": MixedStandard(),
    "positional": MixedPositional(),
    "homogeneous": MixedPositional(bias=False),
}
GATED = MixedGated(compared=compared(), decides=DECIDES)
SEEN = "c=10, seen labels"
UNSEEN = (
    "Test sets use labels and distractor marks that training never showed; validation uses the training ones. "
    "“homogeneous” has no biases, but its character embedding does not scale with the numbers, so f(cx) = c·f(x) "
    "does not hold here."
)
UNREAD = (
    "A model that does not read which labels are asked for has an expected loss of at least 0.0675 (min and multitask) "
    "or 0.694 (sum) on values in [0, 5], and c² times as much on [0, 5c]."
)


@dataclass(frozen=True, kw_only=True)
class MixedProtocol:
    """How a mixed-type model is trained and tested."""

    samples: int
    batch: int
    steps: int
    schedule: str
    scales: tuple[int, ...]
    test_samples: int
    gated_steps: int

    def test_sets(self) -> list[TestSet]:
        """A validation set like the training data, and unseen labels with values in [0, 5c] for every scale."""
        high = TRAINING["high"]
        beyond = [TestSet(scale_name(c), {"low": 0.0, "high": high * c, "held_out": True}) for c in self.scales]
        return [TestSet(VALIDATION, dict(TRAINING)), *beyond]

    def trial(self, task: str, model: Architecture) -> Trial:
        return Trial(
            task=task,
            model=model,
            data=Data(samples=self.samples, batch=self.batch, options=dict(TRAINING)),
            optimiser=Optimiser(steps=self.steps, lr=5e-4, schedule=self.schedule, patience=10),
            evaluation=Evaluation(samples=self.test_samples, sets=self.test_sets()),
        )

    def gated_trial(self, task: str) -> Trial:
        """The gated model on the same samples, in fewer and larger steps; tested on labels that it has seen, too."""
        trial = self.trial(task, GATED)
        seen = TestSet(SEEN, {"low": 0.0, "high": 10 * TRAINING["high"]})
        steps = self.gated_steps
        return replace(
            trial,
            optimiser=Optimiser(steps=steps, lr=1e-2, schedule="cosine", warmup=steps // 50, clip=1.0),
            evaluation=replace(trial.evaluation, sets=[*self.test_sets(), seen]),
        )


PROTOCOLS = {
    "smoke": MixedProtocol(
        samples=32, batch=16, steps=4, schedule="cosine", scales=(1, 2), test_samples=8, gated_steps=4
    ),
    "quick": MixedProtocol(
        samples=10_000,
        batch=100,
        steps=3000,
        schedule="cosine",
        scales=(1, 2, 5, 10),
        test_samples=500,
        gated_steps=3000,
    ),
    "paper": MixedProtocol(
        samples=50_000,
        batch=1000,
        steps=50 * 2001,
        schedule="plateau",
        scales=SCALES,
        test_samples=1000,
        gated_steps=5000,
    ),
}
