"""Where trials run and where results lie: `run(trials)` trains what is missing, `frame(folder)` reads what is there."""

from posattn.engine.interrupt import Interrupted
from posattn.engine.language import fine_tune
from posattn.engine.listing import Held, listing
from posattn.engine.local import run
from posattn.engine.progress import Bar, Lines, Reporter
from posattn.engine.store import Store, frame

__all__ = ["Bar", "Held", "Interrupted", "Lines", "Reporter", "Store", "fine_tune", "frame", "listing", "run"]
