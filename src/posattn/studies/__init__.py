"""Which trials answer which question: one file per study, named after the question.

Every file in every folder here is imported, in alphabetical order: a study is known once its file registers it.
"""

import importlib
import pkgutil

from posattn.studies.core.case import Case
from posattn.studies.core.study import PRESETS, REGISTRY, Study, get, register

__all__ = ["PRESETS", "REGISTRY", "Case", "Study", "get", "register"]

for _module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
    importlib.import_module(_module.name)
