"""Where trials run and where results lie: `run(trials)` runs what is missing, `frame(folder)` reads what is there."""

from posattn.engine.engine import Engine
from posattn.engine.interrupt import Interrupted
from posattn.engine.listing import Held, listing
from posattn.engine.local import LocalEngine
from posattn.engine.plan import Capacity, Plan, plan
from posattn.engine.progress import Bar, Lines, Reporter
from posattn.engine.start import attempt, run
from posattn.engine.store import Provenance, Store, frame

__all__ = [
    "Bar",
    "Capacity",
    "Engine",
    "Held",
    "Interrupted",
    "Lines",
    "LocalEngine",
    "Plan",
    "Provenance",
    "Reporter",
    "Store",
    "attempt",
    "frame",
    "listing",
    "plan",
    "run",
]
