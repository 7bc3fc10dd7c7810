"""All tabs' functions in one place: what a process that jobs are forked from has to import."""

from posattn.lab.attention import attention
from posattn.lab.execute import execute
from posattn.lab.generalise import generalise
from posattn.lab.runs import runs, studies, study_report
from posattn.lab.select import select
from posattn.lab.write import compiled, library_text, proved, watched, weights

__all__ = [
    "attention",
    "compiled",
    "execute",
    "generalise",
    "library_text",
    "proved",
    "runs",
    "select",
    "studies",
    "study_report",
    "watched",
    "weights",
]
