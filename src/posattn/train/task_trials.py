"""What is behind `posattn train`: trials of any task that is registered, with what suits it where nothing is said.

Tasks on lists of numbers are tested at several scales (`numeric_trials`). So is every other task whose samples take
`low` and `high`; the rest has one test set, and fixed data those of its splits that are not trained on.
"""

from inspect import Parameter
from typing import Any

import torch

from posattn import tasks
from posattn.errors import require
from posattn.tasks import Fixed, NumericTask, Shape
from posattn.tasks.base import sample_options
from posattn.tasks.splits import TRAIN
from posattn.train.fleet.data import draw
from posattn.train.numeric_trials import architecture, is_factory, numeric_trials
from posattn.train.sample_options import Options, TestSet
from posattn.train.trial import Trial
from posattn.train.trial_parts import Data, Evaluation, Optimiser

#: Where nothing is said: numbers in an input, samples, and of these in a batch; the scales to test at.
LENGTH, SAMPLES, BATCH = 8, 30_000, 1000
SCALES = (1, 2, 3, 5, 10)


def task_trials(
    task: str,
    model: str,
    *,
    seeds: int,
    steps: int,
    lr: float,
    precision: str,
    length: int | None = None,
    samples: int | None = None,
    batch: int | None = None,
    scales: tuple[int, ...] = (),
) -> list[Trial]:
    """One trial per seed. None, and no scales, stand for what suits the task."""
    found = tasks.get(task)
    if isinstance(found, NumericTask) or (task in tasks.OURS and not is_factory(model)):
        return numeric_trials(
            task,
            model,
            length=LENGTH if length is None else length,
            seeds=seeds,
            steps=steps,
            samples=SAMPLES if samples is None else samples,
            batch=BATCH if batch is None else batch,
            lr=lr,
            scales=scales or SCALES,
            precision=precision,
        )
    require(seeds >= 1, f"seeds={seeds}: train at least one.")
    options = _length_options(found, length)
    rows = found.sizes[TRAIN] if isinstance(found, Fixed) else SAMPLES
    samples = rows if samples is None else samples
    require(
        samples <= rows or not isinstance(found, Fixed),
        f"samples={samples}: split '{TRAIN}' of task '{task}' has {rows} rows. Use at most that many.",
    )
    return [
        Trial(
            task=task,
            model=architecture(model, lambda: _shape(found, options)),
            data=Data(samples=samples, batch=min(BATCH, samples) if batch is None else batch, options=options),
            optimiser=Optimiser(steps=steps, lr=lr, schedule="cosine"),
            evaluation=_evaluation(found, scales),
            precision=precision,
            seed=seed,
        )
        for seed in range(seeds)
    ]


def _length_options(task: Any, length: int | None) -> Options:
    if length is None:
        return {}
    require("length" in sample_options(task), f"length={length}: task '{task.name}' has no length. Leave it out.")
    return {"length": length}


def _shape(task: Any, options: Options) -> Shape:
    """What a model needs that answers at every node."""
    *inputs, target = draw(task, 1, options, torch.Generator().manual_seed(0), torch.float32)
    shapes = [tuple(tensor.shape[1:]) for tensor in (*inputs, target)]
    numbers = target.is_floating_point()
    fits = len(inputs) == 1 and inputs[0].dim() == 3 and target.dim() == 2 + numbers
    require(
        fits and len(inputs[0][0]) == len(target[0]),
        f"task '{task.name}' has samples of shape {', '.join(map(str, shapes))}: the models of this command take one "
        "input, (nodes, width), and answer at every node, with numbers (nodes, width) or a class (nodes,). Give the "
        "samples that shape, or bring a model of your own, --model PACKAGE.MODULE:FUNCTION.",
    )
    nodes, in_dim = shapes[0]
    return Shape(nodes=nodes, in_dim=in_dim, out_dim=shapes[1][1] if numbers else task.classes)


def _evaluation(task: Any, scales: tuple[int, ...]) -> Evaluation:
    known = sample_options(task)
    low, high = known.get("low", Parameter.empty), known.get("high", Parameter.empty)
    ranged = isinstance(low, (int, float)) and isinstance(high, (int, float))
    require(
        ranged or not scales,
        f"scale={scales and scales[0]}: samples of task '{task.name}' have no low and high with defaults, so there is "
        "nothing to scale. Leave it out.",
    )
    require(all(scale >= 1 for scale in scales), f"scales {scales}: each must be 1 or more.")
    if isinstance(task, Fixed):
        others = {name: size for name, size in task.sizes.items() if name != TRAIN}
        sets = [TestSet(name, {"split": name}) for name in others]
        return Evaluation(samples=min(others.values(), default=1), sets=sets)
    if not ranged:
        return Evaluation(sets=[TestSet("test")])
    avoided = {"avoid": (low, high)} if "avoid" in known else {}
    return Evaluation(
        sets=[
            TestSet(f"c={scale}", {"low": low * scale, "high": high * scale} | (avoided if scale > 1 else {}))
            for scale in scales or SCALES
        ]
    )
