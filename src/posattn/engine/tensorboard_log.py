"""Losses and scores as TensorBoard shows them: one run for each trial, called by its id. Needs the extra `tensorboard`.

Where a trial goes on after an interruption, TensorBoard hides what was logged of the steps that are taken again.
"""

import json
import os
from typing import Any

from posattn import checks
from posattn.engine.logs import LOGS, Log
from posattn.errors import missing_extra, require
from posattn.train.runnable import Runnable


class TensorBoard(Log):
    """Writes below a folder, FOLDER/TRIAL-ID. Scalars: `loss` of batches, and `SET/loss` and `SET/metric`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = checks.folder("folder", folder)
        require(
            self.folder.is_dir() or not self.folder.exists(),
            f"log 'tensorboard:{folder}': '{folder}' is a file, and TensorBoard reads folders. Name another place.",
        )
        try:
            from torch.utils.tensorboard import SummaryWriter  # what it needs is the package `tensorboard`
        except ImportError:
            raise missing_extra("logging to TensorBoard", "tensorboard") from None
        self.make = SummaryWriter
        self.writers: dict[str, Any] = {}

    def begin(self, trial: Runnable, step: int) -> None:
        folder = str(self.folder / trial.id)
        if trial.id in self.writers:  # begun again, after memory was short
            self.writers[trial.id].close()
        self.writers[trial.id] = writer = self.make(folder, purge_step=step + 1 if step else None)
        described = json.dumps(json.loads(trial.to_json()), indent=2)
        writer.add_text("trial", f"{trial.title}\n\n```json\n{described}\n```", step)

    def loss(self, trial: Runnable, step: int, loss: float) -> None:
        self.writers[trial.id].add_scalar("loss", loss, step)

    def scores(self, trial: Runnable, step: int, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            for kind in ("loss", "metric"):
                if row[kind] is not None:
                    self.writers[trial.id].add_scalar(f"{row['set']}/{kind}", row[kind], step)
        self.writers[trial.id].flush()

    def end(self, trial: Runnable, diverged_at: int | None) -> None:
        self.writers.pop(trial.id).close()

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()
        self.writers.clear()


LOGS["tensorboard"] = TensorBoard
