"""Tables, figures and the HTML page of a study. Nothing here is typed by hand: all of it is read from the store."""

from posattn.report.figures import curves, rendered
from posattn.report.files import write
from posattn.report.learned import attention_map, weight_maps
from posattn.report.sweep import write_sweep

__all__ = ["attention_map", "curves", "rendered", "weight_maps", "write", "write_sweep"]
