"""What is behind `posattn train`: trials of any task that is registered, with what suits it where nothing is said.

Tasks on lists of numbers are tested at several scales (`numeric_trials`). So is every other task whose samples take
`low` and `high`; the rest has one test set, and fixed data those of its splits that are not trained on. Looped models
are those that suit a task (`looped_for`).
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
from posattn.train.looped_for import SUITED, looped_for
from posattn.train.numeric_trials import architecture, is_factory, numeric_trials
from posattn.train.sample_options import Options, TestSet
from posattn.train.trial import Trial
from posattn.train.trial_parts import Data, Evaluation, Optimiser

#: Where nothing is said: numbers in an input, samples, and of these in a batch; the learning rate; scales to test at.
LENGTH, SAMPLES, BATCH, LR = 8, 30_000, 1000, 1e-3
SCALES = (1, 2, 3, 5, 10)
#: The name of models with one layer for all iterations, and what suits their few weights better.
LOOPED, LOOPED_BATCH, LOOPED_LR = "looped", 128, 1e-2


def task_trials(
    task: str,
    model: str,
    *,
    seeds: int,
    steps: int,
    precision: str,
    lr: float | None = None,
    length: int | None = None,
    samples: int | None = None,
    batch: int | None = None,
    scales: tuple[int, ...] = (),
) -> list[Trial]:
    """One trial per seed. None, and no scales, stand for what suits the task."""
    found = tasks.get(task)
    looped = model == LOOPED
    lr = (LOOPED_LR if looped else LR) if lr is None else lr
    require(
        looped or task not in SUITED or isinstance(found, NumericTask) or is_factory(model),
        f"task '{task}' is not a list of numbers: use model='looped', or a module of your own.",
    )
    if not looped and (isinstance(found, NumericTask) or (task in tasks.OURS and not is_factory(model))):
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
    described = looped_for(task) if looped else None
    options = _size_options(found, length)
    rows = found.sizes[TRAIN] if isinstance(found, Fixed) else SAMPLES
    samples = rows if samples is None else samples
    require(
        samples <= rows or not isinstance(found, Fixed),
        f"samples={samples}: split '{TRAIN}' of task '{task}' has {rows} rows. Use at most that many.",
    )
    batch = min(LOOPED_BATCH if looped else BATCH, samples) if batch is None else batch
    tested: Options = {}
    if looped:  # trained on the answers of every part of an input, and tested on those of the whole
        options, tested = options | {"blocks": True}, {"blocks": False}
    return [
        Trial(
            task=task,
            model=architecture(model, lambda: _shape(found, options)) if described is None else described,
            data=Data(samples=samples, batch=batch, options=options),
            optimiser=Optimiser(steps=steps, lr=lr, schedule="cosine"),
            evaluation=_evaluation(found, scales, tested),
            precision=precision,
            seed=seed,
        )
        for seed in range(seeds)
    ]


def _size_options(task: Any, length: int | None) -> dict[str, Any]:
    """A length, or the nodes of a graph."""
    if length is None:
        return {}
    known = [name for name in ("length", "nodes") if name in sample_options(task)]
    require(bool(known), f"length={length}: task '{task.name}' has no length. Leave it out.")
    return {known[0]: length}


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


def _evaluation(task: Any, scales: tuple[int, ...], also: Options) -> Evaluation:
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
        return Evaluation(sets=[TestSet("test", also)])
    avoided = {"avoid": (low, high)} if "avoid" in known else {}
    return Evaluation(
        sets=[
            TestSet(f"c={scale}", {"low": low * scale, "high": high * scale, **(avoided if scale > 1 else {}), **also})
            for scale in scales or SCALES
        ]
    )
