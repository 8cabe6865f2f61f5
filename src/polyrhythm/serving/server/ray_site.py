"""A site on Ray Serve, as the process that started it sees it: deploy, install plans, hear beacons, drain."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import msgspec

from polyrhythm.core.extras import needed
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, RunError
from polyrhythm.launchers.ray_connection import connect, is_connected
from polyrhythm.serving.control import Beacon
from polyrhythm.serving.server.changing_plans import empty
from polyrhythm.serving.server.control_loop import ServedSite
from polyrhythm.serving.server.gateway import ENTRANCE, GatewayRules
from polyrhythm.serving.server.handle_calls import HandleCalls
from polyrhythm.serving.server.ray_replicas import RayGateway, RayMachine, ReplicaSign
from polyrhythm.serving.server.served_model import ServedModel
from polyrhythm.serving.serving_plan import MachinePlan, ServingPlan
from polyrhythm.serving.turns import DutyTurns

_UNBOUNDED = 1_000_000
"""Ray Serve's own queues never hold a request back: ours know deadlines."""
_LISTENING = 0.6
"""The part of a beacon's interval for which its answer is waited for."""


@dataclass(frozen=True, slots=True)
@checked
class RayServe:
    """Ray Serve (https://docs.ray.io/en/latest/serve) as the executor of a plan, on the cluster at `address`, or on a new one of this host.

    A machine's replica is placed where the resource "machine:NAME" is, of which a new cluster has one for each machine; `options` has other
    options of Ray for a machine's replica by its name, such as {"a": {"num_gpus": 1, "label_selector": {"rack": "2"}}}, in its place.
    A replica must have loaded its models within `startup` seconds.
    """

    address: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    name: str = "polyrhythm"
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    startup: float = 300.0
    gateway: GatewayRules = field(default_factory=GatewayRules)
    turns: DutyTurns = field(default_factory=DutyTurns)

    def deploy(self, served: ServedSite, models: Mapping[tuple[str, str], ServedModel], first: ServingPlan) -> RaySite:
        """Start the replicas with the plan `first`; `models` are by model and kind of machine. Returns when all models are loaded.

        What has been started is ended again where this is interrupted, or fails.
        """
        cluster = self._connected(served)
        self._refuse_without_resources(served)
        bound = self._bound(served, models, first)
        serve = needed("ray.serve", "serve")
        serve.start(http_options={"host": self.host, "port": self.port})
        quiet = importlib.import_module("ray.serve.schema").LoggingConfig(enable_access_log=False, log_level="WARNING")
        try:
            serve.run(bound, name=self.name, route_prefix="/", logging_config=quiet)
        except RuntimeError as problem:
            said = _why(serve.status().applications.get(self.name)) or str(problem)
            cluster.close()
            raise RunError(f"Ray Serve could not start the site: {said}") from problem
        except KeyboardInterrupt:
            cluster.close()
            raise
        return RaySite(self, served, first, cluster)

    def _bound(self, served: ServedSite, models: Mapping[tuple[str, str], ServedModel], first: ServingPlan) -> Any:
        """The application: the gateway, with the machines that it calls."""
        serve = needed("ray.serve", "serve")
        asked = served.members.asked(served.sessions)
        forms = {one.name: form.form for one in asked for (name, _), form in models.items() if name == one.model}
        machines = {each.name: self._machine(each, models, first) for each in served.machines}
        # one gateway: a second one would have buckets and credits of its own, and know nothing of what the first has given to machines
        gateway = serve.deployment(RayGateway).options(
            name=ENTRANCE,
            num_replicas=1,
            max_ongoing_requests=_UNBOUNDED,
            user_config=msgspec.to_builtins(first),
            ray_actor_options={"num_cpus": 0},
        )
        return gateway.bind(served.sessions, served.members, forms, self.gateway, machines)

    def _connected(self, served: ServedSite) -> UsedCluster:
        """The cluster that this process is connected with, that of the address, or a new one."""
        if is_connected():
            return UsedCluster(self.name, own=False)
        if self.address is not None:
            connect("serve", self.address)
            return UsedCluster(self.name, own=False)
        # "local", because without an address Ray takes the cluster of `ray start` on this host, which cannot be given resources
        connect("serve", "local", resources={f"machine:{each.name}": 1.0 for each in served.machines})
        return UsedCluster(self.name, own=True)

    def _machine(self, machine: Any, models: Mapping[tuple[str, str], ServedModel], first: ServingPlan) -> Any:
        serve = needed("ray.serve", "serve")
        own = {model: each for (model, kind), each in models.items() if kind == machine.kind}
        placed = {"num_cpus": 0, **self.options.get(machine.name, {"resources": {f"machine:{machine.name}": 1.0}})}
        made = serve.deployment(RayMachine).options(
            name=f"machine-{machine.name}",
            num_replicas=1,
            max_ongoing_requests=_UNBOUNDED,
            user_config=msgspec.to_builtins(first.on(machine.name) or empty(machine)),
            ray_actor_options=placed,
            health_check_period_s=1.0,
            health_check_timeout_s=max(10.0, self.startup),
        )
        return made.bind(machine, cloudpickle.dumps(own), self.turns)

    def _refuse_without_resources(self, served: ServedSite) -> None:
        here = needed("ray", "serve").cluster_resources()
        missing = [
            f"machine:{each.name}" for each in served.machines if each.name not in self.options and f"machine:{each.name}" not in here
        ]
        if missing:
            raise CompositionError(
                f"Ray's cluster has no {missing[0]!r}: start its node with ray start --resources '{{\"{missing[0]}\": 1}}', "
                "or give options= that select the node of that machine."
            )


@dataclass(frozen=True, slots=True)
class UsedCluster:
    """The cluster on which the application `name` runs: `own` if it was started for it, and ends with it."""

    name: str
    own: bool

    def close(self) -> None:
        """End the application, and its own cluster. A cluster of others keeps Ray's proxy, which finds no application any more.

        An own cluster is ended with its proxy as a whole: were the application deleted before, the proxy would say that there is none.
        """
        if self.own:
            needed("ray", "serve").shutdown(wait_for_processes=True)
        else:
            needed("ray.serve", "serve").delete(self.name)


class RaySite:
    """The running site; the control loop speaks to replicas through handles of their deployments.

    A plan is installed by calling `reconfigure` of a replica through its handle: serve.run gives deployments a new random code version
    each time (Ray 2.60), so that it would restart them for a changed user_config. A replica that Ray Serve has started again has the
    first plan; `beacons` finds that out, and gives it the present one.
    """

    def __init__(self, engine: RayServe, served: ServedSite, first: ServingPlan, cluster: UsedCluster) -> None:
        self._engine, self._served, self._cluster = engine, served, cluster
        serve = needed("ray.serve", "serve")
        names = {each.name: f"machine-{each.name}" for each in served.machines}
        self._handles = {name: serve.get_deployment_handle(each, engine.name) for name, each in names.items()}
        self._handles[ENTRANCE] = serve.get_deployment_handle(ENTRANCE, engine.name)
        self._wanted: dict[str, MachinePlan | ServingPlan] = {
            name: first.on(name) or empty(each) for name, each in self._machines().items()
        }
        self._wanted[ENTRANCE] = first
        self._sending: dict[str, Any] = {}
        self._calls = HandleCalls()
        self._ended = False
        self.signs: dict[str, ReplicaSign] = {}

    @property
    def url(self) -> str:
        """The address of the gateway."""
        return f"http://{self._engine.host}:{self._engine.port}"

    def beacons(self) -> Sequence[Beacon]:
        """The replicas that answer at once; one that follows another plan than it should is told again."""
        seconds = _LISTENING * self._served.control.beacon
        signs = self._calls.all({name: (handle, "sign", ()) for name, handle in self._handles.items()}, seconds)
        found = []
        for name, sign in signs.items():
            if isinstance(sign, BaseException):  # lost, late, or not started yet: all are silence, and the control loop judges it
                continue
            self.signs[name] = sign
            found.append(Beacon(name, time.monotonic(), sign.arrived or {}, sign.dropped or {}))
            self._remind(name, sign)
        return found

    def outcomes(self) -> Mapping[tuple[str, str], int]:
        """The requests so far by session and outcome, as of the last beacons."""
        sign = self.signs.get(ENTRANCE)
        return {} if sign is None or sign.outcomes is None else sign.outcomes

    def follow(self, plan: ServingPlan) -> Sequence[str]:
        """Have the gateway route by that plan."""
        return self._tell({ENTRANCE: plan})

    def install(self, plans: Mapping[str, MachinePlan]) -> Sequence[str]:
        """Have machines load and follow their plans."""
        return self._tell(plans)

    def drain(self, seconds: float) -> None:
        """Take no more requests, answer those that were taken for up to so many seconds, and end the site. Once is enough."""
        if self._ended:
            return
        self._ended = True
        try:
            for name in (ENTRANCE, *self._machines()):  # a replica that is lost has nothing to answer any more
                self._calls.all({name: (self._handles[name], "drain", ())}, seconds)
        finally:
            self._calls.close()
            self._cluster.close()

    def _machines(self) -> dict[str, Any]:
        return {each.name: each for each in self._served.machines}

    def _tell(self, plans: Mapping[str, MachinePlan | ServingPlan]) -> list[str]:
        self._wanted |= plans
        told = {name: (self._handles[name], "reconfigure", (msgspec.to_builtins(plan),)) for name, plan in plans.items()}
        ended = self._calls.all(told, self._engine.startup)
        # one that is lost meanwhile is found silent, and planned around
        failed = {name: each for name, each in ended.items() if isinstance(each, BaseException)}
        return [f"{name} did not take its plan: {type(problem).__name__}: {problem}" for name, problem in failed.items()]

    def _remind(self, name: str, sign: ReplicaSign) -> None:
        """Tell a replica its plan again if it follows another one, and is not being told."""
        if sign.plan == self._wanted[name]:
            self._sending.pop(name, None)
        elif self._sending.get(name) != (sign.pid, self._wanted[name]):
            self._sending[name] = (sign.pid, self._wanted[name])
            self._calls.begin((self._handles[name], "reconfigure", (msgspec.to_builtins(self._wanted[name]),)))


def _why(application: Any) -> str:
    """The last line of what the first deployment that did not start says: the error of a model that cannot be loaded."""
    deployments = {} if application is None else application.deployments
    for name, each in sorted(deployments.items()):
        lines = [line.strip() for line in each.message.splitlines() if line.strip()]
        if each.status != "HEALTHY" and lines:
            return f"{name}: {lines[-1]}"
    return ""
