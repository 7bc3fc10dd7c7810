"""Tables, figures and pages of studies and of models at work. All of a report is read from the store.

Pages are self-contained HTML: `report_page` of a study, `model_page` of a model at work on one input, `attention_page`
of its attention. `posattn.compile.show.trace.page` gives that of a program.
"""

from posattn.report.attention import attention_page
from posattn.report.figures import curves, rendered
from posattn.report.files import report_page, write
from posattn.report.inside import attention_of
from posattn.report.learned import attention_map, weight_maps
from posattn.report.model_trace import model_page
from posattn.report.sweep import write_sweep

__all__ = [
    "attention_map",
    "attention_of",
    "attention_page",
    "curves",
    "model_page",
    "rendered",
    "report_page",
    "weight_maps",
    "write",
    "write_sweep",
]
