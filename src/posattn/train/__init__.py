"""How a model is learned: `Trial` says everything about one run, `Fleet` trains many as one program."""

from posattn.train.fleet.checkpoint import Checkpoints
from posattn.train.fleet.evaluate import Score
from posattn.train.fleet.fleet import Fleet, shape_key
from posattn.train.trial import Data, Evaluation, Optimiser, Trial

__all__ = ["Checkpoints", "Data", "Evaluation", "Fleet", "Optimiser", "Score", "Trial", "shape_key"]
