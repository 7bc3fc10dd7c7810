"""Where trials run and where results lie: `run(trials)` runs what is missing, `frame(folder)` reads what is there."""

from posattn.engine.early_stop import EarlyStop
from posattn.engine.engine import Engine
from posattn.engine.interrupt import Interrupted
from posattn.engine.json_log import JsonLines
from posattn.engine.listing import Held, listing
from posattn.engine.local import LocalEngine
from posattn.engine.logs import LOGS, Log, Logs, log_to
from posattn.engine.plan import Capacity, Plan, plan
from posattn.engine.progress import Bar, Lines, Reporter
from posattn.engine.start import attempt, run
from posattn.engine.store import Provenance, Store, frame
from posattn.engine.tensorboard_log import TensorBoard

__all__ = [
    "LOGS",
    "Bar",
    "Capacity",
    "EarlyStop",
    "Engine",
    "Held",
    "Interrupted",
    "JsonLines",
    "Lines",
    "LocalEngine",
    "Log",
    "Logs",
    "Plan",
    "Provenance",
    "Reporter",
    "Store",
    "TensorBoard",
    "attempt",
    "frame",
    "listing",
    "log_to",
    "plan",
    "run",
]
