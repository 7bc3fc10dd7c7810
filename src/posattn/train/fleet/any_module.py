"""How anybody's module trains: mapped over the replicas, or, if asked, one replica after the other."""

import importlib.util
import os
import shutil

import torch

from posattn.nn.any_module import AnyModule
from posattn.train.fleet.mapped_module import MappedPasses
from posattn.train.fleet.parameters import FlatParameters
from posattn.train.fleet.passes import Passes
from posattn.train.fleet.separate_modules import SeparatePasses
from posattn.train.random_streams import stream
from posattn.train.trial import Trial

#: From so many steps on, a GPU's steps are worth compiling: that takes half a minute and halves their time
#: (docs/performance.md).
COMPILED_FROM = 5_000


def any_passes(
    trials: list[Trial],
    parameters: FlatParameters,
    model: AnyModule,
    *,
    step: torch.Tensor,
    together: bool,
    compiled: bool,
) -> Passes:
    """The passes of a fleet of users' modules; `step` is the tensor that counts its steps."""
    if not together:
        return SeparatePasses(trials, parameters, model, step=step)
    keys = [stream(trial.seed, "noise inside the model").initial_seed() for trial in trials]
    worth = compiled and trials[0].optimiser.steps >= COMPILED_FROM and step.is_cuda
    return MappedPasses(
        trials[0],
        parameters,
        model,
        keys=torch.tensor(keys, dtype=torch.int64, device=step.device),
        step=step,
        compiled=worth and can_compile(),
    )


def can_compile() -> bool:
    """Whether `torch.compile` has what it needs for a GPU: Triton, and a C compiler for what starts its kernels."""
    compilers = (os.environ.get("CC") or "cc", "gcc", "clang")
    return importlib.util.find_spec("triton") is not None and any(map(shutil.which, compilers))
