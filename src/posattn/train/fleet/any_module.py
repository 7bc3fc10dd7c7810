"""How anybody's module trains: mapped over the replicas, or, if asked, one replica after the other."""

import importlib.util
import os
import shutil

import torch

from posattn import tasks
from posattn.nn.any_module import AnyModule
from posattn.nn.initial_weights import Params
from posattn.train.fleet.data import draw
from posattn.train.fleet.mapped_module import MappedPasses
from posattn.train.fleet.parameters import FlatParameters
from posattn.train.fleet.passes import Passes
from posattn.train.fleet.separate_modules import SeparatePasses
from posattn.train.fleet.simplify import mean_numbers
from posattn.train.random_streams import stream
from posattn.train.trial import Trial

#: Operations on so many numbers are worth their start by themselves: measured on two cores (docs/performance.md).
LARGE = 60_000
#: From so many steps on, a GPU's steps are worth compiling: that takes half a minute and halves their time
#: (docs/performance.md).
COMPILED_FROM = 5_000


def any_passes(
    trials: list[Trial], parameters: FlatParameters, *, step: torch.Tensor, together: bool, compiled: bool = False
) -> Passes:
    """The passes of a fleet of users' modules; `step` is the tensor that counts its steps."""
    model = trials[0].model
    assert isinstance(model, AnyModule)
    if not together:
        return SeparatePasses(trials, parameters, model, step=step)
    keys = [stream(trial.seed, "noise inside the model").initial_seed() for trial in trials]
    worth = compiled and trials[0].optimiser.steps >= COMPILED_FROM and step.is_cuda
    found = MappedPasses(
        trials[0],
        parameters,
        model,
        keys=torch.tensor(keys, dtype=torch.int64, device=step.device),
        step=step,
        compiled=worth and can_compile(),
    )
    if found.single and len(trials) > torch.get_num_threads():
        found.notes.append(f"{model.factory}: replicas take each step one by one, which is faster here than together.")
    return found


def chunk_size(trials: list[Trial], first: Params) -> int:
    """How many replicas a CPU takes together: as many as there are for each core, or one where that is faster.

    Together, one operation starts the work of several replicas, which pays while each has little. The sizes of its
    operations are those of a trace of two replicas, both with the first weights of a trial. So a module that cannot be
    mapped is refused here, whatever is faster.
    """
    trial = trials[0]
    task = tasks.get(trial.task, **trial.task_options)
    longest = {"length": max(trial.data.lengths)} if trial.data.lengths else {}
    options, samples = {**trial.data.options, **longest}, trial.data.batch if len(trials) > 1 else 1
    two = FlatParameters([trial.model] * 2, [first] * 2, chunk=2)
    *inputs, target = draw(task, samples, options, torch.Generator().manual_seed(0), two.values.dtype)
    passes = any_passes([trial] * 2, two, step=torch.zeros((), dtype=torch.int64), together=True)
    assert isinstance(passes, MappedPasses)
    traced = passes.traced(0, tuple(torch.stack([x, x]) for x in inputs), torch.stack([target, target]))
    return 1 if mean_numbers(traced) / 2 > LARGE else -(-len(trials) // torch.get_num_threads())


def can_compile() -> bool:
    """Whether `torch.compile` has what it needs for a GPU: Triton, and a C compiler for what starts its kernels."""
    compilers = (os.environ.get("CC") or "cc", "gcc", "clang")
    return importlib.util.find_spec("triton") is not None and any(map(shutil.which, compilers))
