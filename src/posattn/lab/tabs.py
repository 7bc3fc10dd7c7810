"""What the lab can be asked, by name. The processes that jobs are forked from import this, and the page does not.

So the page is there before torch is imported.
"""

from collections.abc import Callable, Mapping
from typing import Any

from posattn import zoo
from posattn.compile import library
from posattn.lab import models, write
from posattn.lab.attention import attention, uploaded
from posattn.lab.execute import execute
from posattn.lab.generalise import generalise
from posattn.lab.runs import runs, studies, study_report
from posattn.lab.select import select
from posattn.lab.shown import Note


def catalogue(*, note: Note) -> dict[str, Any]:
    """What there is to choose from."""
    return {
        "programs": models.programs(),
        "trained": models.trained(),
        "tasks": sorted({task for task, _ in zoo.of_lists()}),
        "texts": {name: write.library_text(name) for name in library.PROGRAMS},
    }


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "attention": attention,
    "catalogue": catalogue,
    "compile": write.compiled,
    "execute": execute,
    "generalise": generalise,
    "prove": write.proved,
    "report": study_report,
    "runs": runs,
    "select": select,
    "studies": studies,
    "upload": uploaded,
    "watch": write.watched,
    "weights": write.weights,
}
