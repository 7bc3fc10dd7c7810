"""Tasks with one number as the answer at every node, and how these answers are scored."""

from jaxtyping import Float
from torch import Tensor

from posattn.tasks.base import Task
from posattn.tasks.scoring import check_scored, known_squared_error, solved, squared_error


class NodewiseTask(Task):
    """Predictions and targets are (…, batch, nodes, channels). There is one channel, which is the answer.

    Models that apply one layer again and again can be trained on what they should hold on the way: samples drawn with
    `blocks=True` have a channel for each supervised iteration, NaN where a node is not supervised then. The last
    channel is the answer.
    """

    def loss(
        self,
        prediction: Float[Tensor, "*replicas batch nodes channels"],
        target: Float[Tensor, "*replicas batch nodes channels"],
    ) -> Float[Tensor, "*replicas"]:
        """Mean squared error over samples, nodes and channels, without targets that are NaN."""
        check_scored(self.name, prediction, target, axes=3)
        score = squared_error if target.shape[-1] == 1 else known_squared_error  # one channel is known everywhere
        return score(prediction, target, axes=3)

    def metric(
        self,
        prediction: Float[Tensor, "*replicas batch nodes channels"],
        target: Float[Tensor, "*replicas batch nodes channels"],
    ) -> Float[Tensor, "*replicas"]:
        """The share of samples whose answers, the last channel, are all within rtol = atol = 0.1 of the target."""
        check_scored(self.name, prediction, target, axes=3)
        return solved(prediction[..., -1:], target[..., -1:], axes=3)
