"""Sweeps: the trials of a study with many values of some fields, and which values do best on its validation sets."""

from posattn.studies.sweep.run import sweep
from posattn.studies.sweep.space import Range, Space, parse
from posattn.studies.sweep.tried import Sweep, Tried

__all__ = ["Range", "Space", "Sweep", "Tried", "parse", "sweep"]
