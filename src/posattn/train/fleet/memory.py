"""How much of a device's memory a fleet takes."""

import torch

from posattn.train.fleet.fleet import Fleet
from posattn.train.trial import Trial


def bytes_per_replica(trial: Trial, device: torch.device, *, together: bool = True) -> int:
    """Device memory that one replica of such a fleet takes at its peak: measured on a fleet of one."""
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    fleet = Fleet([trial], device=device, together=together, compiled=False)
    for number, part in enumerate(fleet.data.parts):
        part.prepare(0)
        with fleet._arithmetic():
            fleet._step(number)
    fleet.scores()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before
