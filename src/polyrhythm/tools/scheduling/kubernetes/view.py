"""A Kubernetes cluster as the decision knows one: nodes as hosts, gangs of pods as jobs, and where their pods are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from polyrhythm.cluster import Cluster, ClusterDevice, ClusterHost, ClusterJob, DomainLevel, JobPlacement, Queue, WorkerDemand, WorkerSlot
from polyrhythm.cluster.cluster import OFFICE
from polyrhythm.errors import unknown
from polyrhythm.hardware.network import Network
from polyrhythm.launchers.manifest import Manifest
from polyrhythm.tools.scheduling.kubernetes.gangs import JOB, Gang, Place, gangs, is_stray, malformed
from polyrhythm.tools.scheduling.kubernetes.gates import Gate, TaintGate
from polyrhythm.tools.scheduling.kubernetes.health import DEVICE, dead_devices, node_health
from polyrhythm.tools.scheduling.kubernetes.mirror import named
from polyrhythm.tools.scheduling.kubernetes.quantities import quantity, requested
from polyrhythm.tools.scheduling.kubernetes.remembering import Remembering

QUEUE = "polyrhythm.dev/queue"
"""The label with the queue of a gang."""
_LEAST_CORES = 0.001
_REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings by which a Kubernetes cluster is read: the gate, the resource that counts as a device, node labels of domains, and queues.

    A pod that was let in and that kube-scheduler has not bound after `forget` seconds is taken back. Where `hosts` are named,
    other nodes are not looked at. Where their `site` is given, it says what nodes do not: machines of the catalogue, prices, the network.
    """

    namespace: str = "default"
    gate: Gate = field(default_factory=TaintGate)
    resource: str = DEVICE
    levels: Mapping[str, str] = field(default_factory=dict)
    queues: Sequence[Queue] = (Queue("default"),)
    forget: float = 30.0
    hosts: frozenset[str] = frozenset()
    site: Cluster | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All of a cluster at one moment. `lost` are hosts, as (name, None), and devices; `closed` hosts keep their pods and get no new ones;
    `strays` are pods on nodes that are not there; `refused` are gangs that cannot be read, each with a sentence: they wait.
    """

    cluster: Cluster | None
    lost: frozenset[tuple[str, int | None]]
    closed: frozenset[tuple[str, int | None]]
    gangs: Mapping[str, Gang]
    jobs: Mapping[str, ClusterJob]
    placements: Mapping[str, JobPlacement]
    strays: tuple[Manifest, ...]
    refused: Mapping[str, str] = field(default_factory=dict)


def cluster_view(nodes: Sequence[Manifest], pods: Sequence[Manifest], slices: Sequence[Manifest], settings: ClusterSettings) -> ClusterView:
    """The view of these objects."""
    gate = settings.gate
    # also of a node that is gone the pods that were let onto it are known by its sign
    signs = _signs(tuple((gate.sign(node), node["metadata"]["name"]) for node in nodes))
    own = [pod for pod in pods if pod["metadata"].get("namespace") == settings.namespace and JOB in pod["metadata"].get("labels", {})]
    refused = _refused(own, settings)
    found = gangs([pod for pod in own if pod["metadata"]["labels"][JOB] not in refused], gate, signs)
    taken = _taken(found, settings)
    use = _use(pods, found, taken, settings)
    hosts, lost = [], set()
    for node in sorted(nodes, key=lambda each: str(each["metadata"]["name"])):
        host, dead = _host(node, slices, use.get(str(node["metadata"]["name"]), _NodeUse()), settings)
        hosts.append(host)
        lost |= dead
    levels, site = tuple(DomainLevel(level) for level in settings.levels), settings.site
    cluster = _cluster(tuple(hosts), levels, tuple(settings.queues), OFFICE if site is None else site.network) if hosts else None
    placements = {name: JobPlacement(name, _slots(gang, taken)) for name, gang in found.items()}
    strays = tuple(pod for pod in own if _STRAYS.of(named(pod), pod, gate, signs))
    closed = {(str(node["metadata"]["name"]), None) for node in nodes if node_health(node).closed}
    jobs = {name: _JOBS.of(name, gang, settings) for name, gang in found.items()}
    return ClusterView(cluster, frozenset(lost), frozenset(closed), found, jobs, placements, strays, refused)


def _refused(pods: Iterable[Manifest], settings: ClusterSettings) -> dict[str, str]:
    """The gangs with a pod whose notes cannot be: they must not keep the others waiting."""
    queues = [queue.name for queue in settings.queues]
    found: dict[str, str] = {}
    for pod in pods:
        labels = pod["metadata"]["labels"]
        queue = str(labels.get(QUEUE, queues[0]))
        wrong = _MALFORMED.of(named(pod), pod) or (None if queue in queues else str(unknown("queue", queue, queues)))
        if wrong is not None:
            found.setdefault(labels[JOB], wrong)
    return found


Taken = dict[str, dict[str, tuple[int, ...]]]
"""For each node, by the uid of each pod that has its room there, the numbers of its devices."""


def _taken(found: Mapping[str, Gang], settings: ClusterSettings) -> Taken:
    """The devices of all pods. Those of which nobody has said which they are get the first that are left."""
    taken: Taken = {}
    unsaid: list[tuple[Manifest, str]] = []
    for gang in found.values():
        for name, (node, devices) in gang.places.items():
            if devices is None:
                unsaid.append((gang.pods[name], node))
            else:
                taken.setdefault(node, {})[gang.pods[name]["metadata"]["uid"]] = devices
    for pod, node in unsaid:
        there = taken.setdefault(node, {})
        used = {device for devices in there.values() for device in devices}
        wanted = int(requested(pod, settings.resource))
        there[pod["metadata"]["uid"]] = tuple([number for number in range(wanted + len(used)) if number not in used][:wanted])
    return taken


def _slots(gang: Gang, taken: Taken) -> tuple[WorkerSlot, ...]:
    places: dict[str, Place] = gang.places
    chosen = [name for name in gang.pods if name in places]
    return tuple(WorkerSlot(places[name][0], taken[places[name][0]][gang.pods[name]["metadata"]["uid"]]) for name in chosen)


@dataclass(slots=True)
class _NodeUse:
    """The use of a node by gangs, and by all other pods: those of others, and ours that are being deleted."""

    devices: set[int] = field(default_factory=set)
    own: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)


def _host(
    node: Manifest, slices: Iterable[Manifest], use: _NodeUse, settings: ClusterSettings
) -> tuple[ClusterHost, set[tuple[str, int | None]]]:
    """The host, and what of it is lost: all, or the devices that are not well, or that pods of others have."""
    name, status, labels = str(node["metadata"]["name"]), node.get("status", {}), node["metadata"].get("labels", {})
    health = node_health(node)
    count, dead, more = dead_devices(node, slices, settings.resource)
    count = max([count, *(device + 1 for device in use.devices)])
    lost: set[tuple[str, int | None]] = {(name, device) for device in dead}
    # those that nobody has, from the last, are taken for what is not well, or is not ours
    spare = sorted((each for each in range(count) if each not in dead), key=lambda each: (each in use.devices, -each))
    lost |= {(name, device) for device in spare[: more + int(use.foreign[settings.resource])]}
    if health.lost:
        lost.add((name, None))
    cores, memory = (_amount(status, use, resource) for resource in ("cpu", "memory"))
    domains = tuple((level, labels[label]) for level, label in settings.levels.items() if label in labels)
    model = labels.get(f"{settings.resource}.product", "gpu")
    known = settings.site.hosts[settings.site.index[name]] if settings.site is not None and name in settings.site.index else None
    return _cluster_host(name, (max(cores, _LEAST_CORES), int(memory)), (model, count), domains, known), lost


def _job(gang: Gang, settings: ClusterSettings) -> ClusterJob:
    first = next(iter(gang.pods.values()))
    cores, memory, devices = _requests(first, settings)
    demand = _demand(int(devices), cores if cores or devices else _LEAST_CORES, int(memory))
    queue = first["metadata"].get("labels", {}).get(QUEUE, settings.queues[0].name)
    priority = int(first["spec"].get("priority") or 0)
    return _cluster_job(gang.name, demand, gang.size, min(gang.least, gang.size), (queue, priority, gang.is_replaced))


# values are checked when they are made, which for a thousand jobs that have not changed takes longer than all else
def _requests(pod: Manifest, settings: ClusterSettings) -> tuple[float, float, float]:
    """The cores, the memory and the devices that a pod asks for."""
    return requested(pod, "cpu"), requested(pod, "memory"), requested(pod, settings.resource)


_MALFORMED, _REQUESTS, _JOBS, _STRAYS = Remembering(malformed), Remembering(_requests), Remembering(_job), Remembering(is_stray)


@lru_cache(2)
def _signs(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The same object for the same nodes, so that what was found with it is known again."""
    return dict(pairs)


@lru_cache(2)
def _cluster(hosts: tuple[ClusterHost, ...], levels: tuple[DomainLevel, ...], queues: tuple[Queue, ...], network: Network) -> Cluster:
    return Cluster("kubernetes", hosts, levels, queues, network)


@lru_cache(_REMEMBERED)
def _demand(devices: int, cores: float, memory: int) -> WorkerDemand:
    return WorkerDemand(devices=devices, cores=cores, memory=memory)


@lru_cache(_REMEMBERED)
def _cluster_job(name: str, demand: WorkerDemand, size: int, least: int, line: tuple[str, int, bool]) -> ClusterJob:
    queue, priority, preemptible = line
    return ClusterJob(name, demand, size, least, queue, priority, preemptible)


@lru_cache(_REMEMBERED)
def _cluster_host(
    name: str, amounts: tuple[float, int], devices: tuple[str, int], labels: tuple[tuple[str, str], ...], known: ClusterHost | None
) -> ClusterHost:
    model, count = devices
    host = ClusterHost(name, *amounts, (ClusterDevice(model=model),) * count, labels=labels)
    return host if known is None else replace(host, machine=known.machine, site=known.site, price_per_hour=known.price_per_hour)


def _amount(status: Manifest, use: _NodeUse, resource: str) -> float:
    """The amount that is not taken by others; what gangs have stays theirs."""
    return max(quantity(status.get("allocatable", {}).get(resource, 0)) - use.foreign[resource], use.own[resource])


def _use(pods: Iterable[Manifest], found: Mapping[str, Gang], taken: Taken, settings: ClusterSettings) -> dict[str, _NodeUse]:
    uses: dict[str, _NodeUse] = {}
    ours: dict[str, str] = {}
    for gang in found.values():
        ours |= {gang.pods[name]["metadata"]["uid"]: node for name, (node, _) in gang.places.items()}
    for pod in pods:
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        place = ours.get(pod["metadata"].get("uid", ""))
        if node := place or pod["spec"].get("nodeName"):
            use = uses.setdefault(node, _NodeUse())
            counted: Counter[str] = use.own if place else use.foreign
            cores, memory, devices = _REQUESTS.of(named(pod), pod, settings)
            counted["cpu"] += cores  # type: ignore[assignment]
            counted["memory"] += memory  # type: ignore[assignment]
            counted[settings.resource] += devices  # type: ignore[assignment]
    for node, there in taken.items():
        uses.setdefault(node, _NodeUse()).devices |= {device for devices in there.values() for device in devices}
    return uses
