"""Ray: each worker is an actor in a placement group."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from polyrhythm.core.extras import needed
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.engine import EngineRuntime
from polyrhythm.launchers.protocol import Loss, TaskOrder, Tasks
from polyrhythm.launchers.ray_connection import connect, is_connected

_connected: list[str] = []
"""The addresses of clusters with which this process was connected here, so that Ray does not print what actors print."""
_PLACEMENTS = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@dataclass(frozen=True, slots=True)
@checked
class Ray(EngineRuntime):
    """Runs on a Ray cluster (Moritz et al., OSDI 2018), by actors of `cpus` cores and `gpus` devices each.

    `address` is the cluster's, as of `ray.init`; without one the cluster that this process is connected with or finds, else a new one
    on this host. `placement` is the strategy of the placement group: "PACK" onto few nodes, "SPREAD" over many, or their strict forms.
    `resources` are further ones that each actor needs, `runtime_env` as of `ray.init`. `driver` is an address of this host that the
    actors can reach, where Ray does not know it. If a task is lost, it is started again up to `restarts` times, and the run continues from
    its newest checkpoint; in a crew that changes it joins the others, who do not stop. All actors must have come within `startup` seconds.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    placement: str = "PACK"
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] | None = None
    driver: str | None = None
    restarts: int = 3
    startup: float = 300.0
    threads: int = 1
    timeout: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.placement not in _PLACEMENTS:
            raise CompositionError(f"Ray(placement={self.placement!r}) is not one of Ray's: give {', '.join(_PLACEMENTS)}.")

    @property
    def kind(self) -> str:
        """The name of this runtime in `--on` and in the JSON."""
        return "ray"

    def driver_address(self) -> str:
        """The address of this node in the cluster, with which this process connects."""
        self._connect()
        return self.driver or str(_ray().util.get_node_ip_address())

    def start(self, order: TaskOrder) -> Tasks:
        """Reserve room for all actors at once, and start them there."""
        return _Actors(self, order)

    @property
    def echoes(self) -> bool:
        """A process that had connected with Ray by itself has Ray print what actors print; else they send it."""
        return bool(_connected)

    def _connect(self) -> None:
        if is_connected():
            return
        _connected.append(self.address or "")
        connect("ray", self.address, runtime_env=dict(self.runtime_env) if self.runtime_env else None)


class _Actors:
    """The actors of one run, in a placement group of their own."""

    def __init__(self, engine: Ray, order: TaskOrder) -> None:
        ray = _ray()
        self._engine = engine
        self._order = msgspec.json.encode(order)
        bundle = {"CPU": engine.cpus, **({"GPU": engine.gpus} if engine.gpus else {}), **engine.resources}
        self._group = ray.util.placement_group([bundle] * order.workers, strategy=engine.placement)
        self._actors: dict[int, Any] = {}
        self._ends: dict[Any, int] = {}
        if not self._group.wait(engine.startup):
            self.close(0.0)
            raise CompositionError(
                f"Ray had no room for {order.workers} actors with {bundle} each ({engine.placement}) within {engine.startup:g} seconds; "
                f"the cluster has {ray.available_resources()} free: start fewer workers, or give cpus=, gpus= or placement= that fit."
            )
        self.restart(list(range(order.workers)))

    def losses(self) -> list[Loss]:
        """Actors that have died."""
        ray = _ray()
        found: list[Loss] = []
        ready, _ = ray.wait(list(self._ends), num_returns=len(self._ends), timeout=0) if self._ends else ([], [])
        for end in ready:
            rank = self._ends.pop(end)
            try:
                ray.get(end)
            except ray.exceptions.RayError as problem:
                found.append(Loss(rank, f"Ray reports: {_first_lines(str(problem))}"))
        return found

    def restart(self, ranks: list[int]) -> list[int]:
        """Start actors of these ranks, in the room that is theirs; the others stay."""
        ray = _ray()
        scheduling = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
        self._ends = {end: rank for end, rank in self._ends.items() if rank not in ranks}  # how those of before end is known
        for rank in ranks:
            options: dict[str, Any] = {
                "num_cpus": self._engine.cpus,
                "num_gpus": self._engine.gpus,
                "resources": dict(self._engine.resources),
            }
            options["scheduling_strategy"] = scheduling(self._group, placement_group_bundle_index=rank)
            actor = self._actors[rank] = ray.remote(_Task).options(**options).remote()
            self._ends[actor.serve.remote(self._order, rank)] = rank
        return ranks

    def close(self, seconds: float) -> None:
        """Kill the actors, and give their room back."""
        ray = _ray()
        ray.wait(list(self._ends), num_returns=len(self._ends), timeout=seconds) if self._ends else None
        for actor in self._actors.values():
            ray.kill(actor)
        ray.util.remove_placement_group(self._group)


class _Task:
    """The actor."""

    def serve(self, order: bytes, rank: int) -> None:
        """Be the task of `rank` until the run is over."""
        from polyrhythm.launchers.task import serve

        serve(msgspec.json.decode(order, type=TaskOrder), rank)


def _ray() -> Any:
    ray = needed("ray", "ray")
    importlib.import_module("ray.util.scheduling_strategies")
    return ray


def _first_lines(text: str) -> str:
    """Ray's account of an actor's death, without the traceback and identifiers."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(("class_name:", "actor_id:", "pid:", "namespace:", "ip:", "name:")))[:600]
