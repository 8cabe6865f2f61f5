"""The nodes of a Ray cluster by the names of hosts, and gangs of actors on some of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyrhythm.cluster import WorkerDemand
from polyrhythm.core.extras import needed
from polyrhythm.launchers.ray import Ray
from polyrhythm.tools.scheduling.news import StartWorker
from polyrhythm.tools.scheduling.ray.worker_actor import WorkerActor

HOST = "polyrhythm.dev/host"
"""The label of a node with the name that SITE has for it."""
_NODE = "ray.io/node-id"
"""The label with a node's identifier, which Ray gives to each."""
_LEAST_CORES = 0.001
_THREADS = 2
_GRANT_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node that is alive: its identifier and its address."""

    identifier: str
    address: str


@dataclass(frozen=True, slots=True)
class ActorEnd:
    """How an actor has ended: with the exit status of its worker, or by a loss, in words."""

    status: int | None
    loss: str = ""


@dataclass(slots=True)
class ActorGang:
    """The actors of `orders`, one on each of `places`, in a placement group that is granted as a whole. They start when it is."""

    ray: Any
    orders: Sequence[StartWorker]
    places: Sequence[str]
    demand: WorkerDemand
    actors: dict[str, Any] = field(default_factory=dict)
    _group: Any = None
    _ends: dict[Any, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        selectors = [{_NODE: place} for place in self.places]
        self._group = self.ray.util.placement_group([self._bundle] * len(self.places), strategy="PACK", bundle_label_selector=selectors)

    @property
    def is_granted(self) -> bool:
        """True when there was room; the actors are started then."""
        if not self.actors and self._group.wait(_GRANT_SECONDS):
            self._start()
        return bool(self.actors)

    @property
    def left(self) -> list[str]:
        """The workers that have not ended."""
        return list(self._ends.values()) if self.actors else [order.name for order in self.orders]

    def ends(self) -> dict[str, ActorEnd]:
        """The workers that have ended since the last call."""
        if not self._ends:
            return {}
        ready, _ = self.ray.wait(list(self._ends), num_returns=len(self._ends), timeout=0)
        return {self._ends.pop(end): self._ended(end) for end in ready}

    def stop(self, by_force: bool) -> None:
        """Ask all workers to end, or kill them."""
        for actor in self.actors.values():
            self.ray.kill(actor) if by_force else actor.stop.remote()

    def close(self) -> None:
        """Kill what is left, and give the room back."""
        for actor in self.actors.values():
            self.ray.kill(actor)
        self.ray.util.remove_placement_group(self._group)

    @property
    def _bundle(self) -> dict[str, float]:
        demand = self.demand
        shared = demand.devices * demand.milli / 1000
        amounts = {"CPU": demand.cores, "GPU": shared, "memory": float(demand.memory)}
        return {name: amount for name, amount in amounts.items() if amount} or {"CPU": _LEAST_CORES}

    def _start(self) -> None:
        strategy = self.ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
        asked = self._bundle
        for number, order in enumerate(self.orders):
            options: dict[str, Any] = {"num_cpus": asked.get("CPU", 0), "num_gpus": asked.get("GPU", 0), "max_concurrency": _THREADS}
            options["scheduling_strategy"] = strategy(self._group, placement_group_bundle_index=number)
            actor = self.actors[order.name] = self.ray.remote(WorkerActor).options(**options).remote()
            self._ends[actor.carry.remote(order.command, order.environment, order.log)] = order.name

    def _ended(self, end: Any) -> ActorEnd:
        try:
            return ActorEnd(int(self.ray.get(end)))
        except self.ray.exceptions.RayError as problem:
            return ActorEnd(None, " ".join(str(problem).split())[:200])


class RayCluster:
    """The Ray cluster that `engine` names, with which this process is connected. Raises CompositionError where it cannot be."""

    def __init__(self, engine: Ray) -> None:
        self._ray = needed("ray", "ray")
        importlib.import_module("ray.util.scheduling_strategies")
        engine.driver_address()

    def nodes(self) -> Mapping[str, RayNode]:
        """The nodes that are alive, by the label with their host; those without it by their host name and their address."""
        found: dict[str, RayNode] = {}
        for node in self._ray.nodes():
            if not node["Alive"]:
                continue
            labelled = node.get("Labels", {}).get(HOST)
            names = [labelled] if labelled else [node["NodeManagerHostname"], node["NodeManagerAddress"]]
            found |= dict.fromkeys(names, RayNode(node["NodeID"], node["NodeManagerAddress"]))
        return found

    def gang(self, orders: Sequence[StartWorker], places: Sequence[str], demand: WorkerDemand) -> ActorGang:
        """A gang that waits for its room on the nodes with these identifiers."""
        return ActorGang(self._ray, orders, places, demand)
