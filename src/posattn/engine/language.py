"""Fine-tune a language model where the store does not hold the result yet, and keep it there (not the weights)."""

import os
import signal
import time

import torch

from posattn import checks, devices
from posattn.engine.interrupt import Interrupted, terminable
from posattn.engine.progress import Bar, Reporter, check_reporter
from posattn.engine.store import Store
from posattn.train.language import fine_tune as language
from posattn.train.language.fine_tune import LanguageTrial
from posattn.train.language.pretrained import Unreachable
from posattn.version import __version__


def fine_tune(
    trial: LanguageTrial,
    *,
    out: str | os.PathLike[str] = "runs",
    device: str | torch.device = "auto",
    reporter: Reporter | None = None,
) -> Store:
    """Run one trial of a language model. Its weights are gigabytes that anyone can make again, so they are not kept."""
    checks.instance("trial", trial, LanguageTrial, fix="describe a run, as LanguageTrial(task='mixed-min', …)")
    check_reporter(reporter)
    store, where = Store(out), devices.resolve(device)
    notes = store.prepare()
    if store.finished(trial):
        return store
    began = time.monotonic()
    with reporter or Bar() as report:
        for note in notes:
            report.say(note)
        number = report.start(f"{trial.model} on {trial.task}", trial.steps, 0)
        try:
            with terminable():
                scores = language.fine_tune(
                    trial, device=where, report=lambda step, loss: report.update(number, step, [loss])
                )
        except Unreachable as reason:
            report.say(f"{reason} The study goes on without it.")
            raise
        except KeyboardInterrupt as stop:
            raise Interrupted(
                f"stopped while fine-tuning {trial.model} on {trial.task}, which begins anew next time. "
                "Run the same command again to go on; what is finished is kept.",
                stop.signal if isinstance(stop, Interrupted) else signal.SIGINT,
            ) from None
        finally:
            report.end(number)
    metrics = {
        "scores": scores,
        "diverged_at": None,
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else "cpu",
        "fleet": 1,
        "seconds": round(time.monotonic() - began, 3),
        "version": __version__,
        "torch": str(torch.__version__),
    }
    store.write(trial, None, metrics)
    return store
