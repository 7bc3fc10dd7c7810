"""The seam: whatever can carry out a plan is an engine. This process is one (`local`), a cluster can be another.

    class Mine:
        def capacity(self) -> Capacity: …
        def run(self, plan: Plan, store: Store, reporter: Reporter) -> dict[str, str]: …

    posattn.engine.run(trials, engine=Mine())

Studies, the store and the command know no more of an engine than this. The simplest one takes the trials one by one,
`store.write(trial, execute(trial, …), Provenance(…))`. One that has losses on the way tells `reporter.logs` of them; of
one that does not, logs get the results.
"""

from typing import Protocol, runtime_checkable

from posattn.engine.plan import Capacity, Plan
from posattn.engine.progress import Reporter
from posattn.engine.store import Store


@runtime_checkable
class Engine(Protocol):
    """Something that runs trials."""

    def capacity(self) -> Capacity:
        """What it offers, for the plan."""
        ...

    def run(self, plan: Plan, store: Store, reporter: Reporter) -> dict[str, str]:
        """Run every trial of the plan into the store; gives why some were left out, by trial id.

        Results that the store holds are kept, but for those of `plan.replaced`. Stopped by a signal, it raises
        `Interrupted` with what is needed to go on kept in the store.
        """
        ...
