"""The engine that is a Ray cluster: fleets are Ray's tasks, and this process writes what comes back (extra `cluster`).

from posattn.engine.cluster import ClusterEngine

posattn.engine.run(trials, engine=ClusterEngine("auto"))
"""

from posattn.engine.cluster.engine import ClusterEngine

__all__ = ["ClusterEngine"]
