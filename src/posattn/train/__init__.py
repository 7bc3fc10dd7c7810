"""How a model is learned: `Trial` says everything about one run, `Fleet` trains many as one program."""

from posattn.train import polish
from posattn.train.fleet import fleet_of_one as alone
from posattn.train.fleet.checkpoint import Checkpoints
from posattn.train.fleet.evaluate import Score
from posattn.train.fleet.fleet import Fleet
from posattn.train.fleet.grouping import shape_key
from posattn.train.language import fine_tune
from posattn.train.runnable import execute
from posattn.train.sample_options import TestSet
from posattn.train.trial import Trial
from posattn.train.trial_parts import Data, Evaluation, Optimiser

#: These say how the kinds of trials are run (`execute`): whoever can describe one can run it.
RUNNERS = (alone, fine_tune)

__all__ = [
    "Checkpoints",
    "Data",
    "Evaluation",
    "Fleet",
    "Optimiser",
    "Score",
    "TestSet",
    "Trial",
    "execute",
    "polish",
    "shape_key",
]
