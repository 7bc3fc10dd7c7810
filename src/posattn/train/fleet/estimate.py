"""What a replica takes of a device's memory, worked out from its trial alone: for plans that touch no device."""

import math
from collections.abc import Sequence

from posattn.train.fleet.grouping import shape_key
from posattn.train.trial import Trial

#: Copies of the weights: values, gradients, Adam's two means, and what a step makes on its way.
COPIES = 6
#: Numbers that a layer keeps for each node and unit of its width, from the forward pass to the gradient.
KEPT = 16


def estimated_bytes(trials: Sequence[Trial]) -> int:
    """Bytes of the largest replica of a fleet of these trials: weights, samples, and what a batch leaves behind."""
    most = max(trials, key=lambda trial: trial.data.samples)
    model = trials[0].model.covering([trial.model for trial in trials])
    weights = sum(map(math.prod, model.shapes().values()))
    shapes = dict(dict(shape_key(most))["samples"])
    each = {name: sum(map(math.prod, shape)) for name, shape in shapes.items()}
    tested = sum(numbers for name, numbers in each.items() if name.startswith("test set"))
    drawn = max(numbers for name, numbers in each.items() if name.startswith("data"))
    nodes = max(shape[0] for shape in dict(shapes).values() for shape in shape if shape) if shapes else 1
    width = max(getattr(model, "hidden_dim", 1), getattr(model, "embed_dim", 1))
    layers = getattr(model, "layers", None) or 1
    heads = getattr(model, "heads", 1)
    kept = most.data.batch * nodes * layers * (KEPT * width + 4 * heads * nodes)
    number = 8 if most.precision == "float64" else 4
    samples = most.data.samples * (drawn + 2) + most.evaluation.samples * tested
    return number * (COPIES * weights + 2 * samples + kept)
