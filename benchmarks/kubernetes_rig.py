"""What the scheduler does on a control plane of Kubernetes itself: pods a second, the wait of each, and how soon it knows of what is lost.

    tests/kubernetes/build.sh && python benchmarks/kubernetes_rig.py [--pods 1000] [--nodes 125] [--turns 1] [--json PATH]

etcd, kube-apiserver, kube-scheduler and kube-controller-manager run here. Nodes are hollow: nothing runs on them, and this program says
what their kubelets would say.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kubernetes"))

from hollow import HollowKubelets, make_node, pod, set_ready, training_job
from rig import RealControlPlane
from running import bound, overbooked, pods_of, scheduled
from waiting import until

from polyrhythm.errors import RunError
from polyrhythm.tools.scheduling.kubernetes.api import JOBS, NODES, PODS, Api
from polyrhythm.tools.scheduling.kubernetes.gates import TaintGate
from polyrhythm.tools.scheduling.kubernetes.view import ClusterSettings
from polyrhythm.tools.scheduling.kubernetes.watching import LISTED, Heard, Watching

GATE = TaintGate()
COMPACTION, KILL = "compaction and restart of the API server", "kill of etcd"
_NUMBERS = itertools.count()


def prepared(api: Api, name: str, devices: int) -> None:
    """A node onto which pods come only when they are let in."""
    make_node(api, name, devices)
    for _ in range(50):
        node = api.ask("GET", NODES.path("", name)).body
        patch = GATE.preparation(node)
        if patch is None:
            return
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        api.ask("PATCH", NODES.path("", name), {**patch, "metadata": {**patch["metadata"], **version}})


def namespaced(api: Api, name: str) -> str:
    """A new namespace."""
    assert api.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).taken
    return name


class Bindings:
    """When each pod of a namespace was first seen, and when bound, by a watch."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.bound: dict[str, float] = {}
        self.nodes: dict[str, set[str]] = {}
        self._heard: Heard = SimpleQueue()
        self._watch = Watching(api, PODS, namespace, self._heard)
        threading.Thread(target=self._listen, daemon=True).start()
        self._watch.start()

    def _listen(self) -> None:
        while True:
            _, kind, item = self._heard.get()
            for each in item["items"] if kind == LISTED else [item]:
                if node := each["spec"].get("nodeName"):
                    self.bound.setdefault(each["metadata"]["name"], time.monotonic())
                    self.nodes.setdefault(each["metadata"]["uid"], set()).add(node)


def throughput(plane: RealControlPlane, pods: int, nodes: int, rate: float | None, gated: bool = True) -> dict[str, Any]:
    """Pods a second from the first creation to the last binding, and the wait of each from its creation; created at `rate` a second.

    Without gates kube-scheduler decides alone, which is what this machine can do at most.
    """
    api = plane.api()
    namespace = namespaced(api, f"pods-{next(_NUMBERS)}")
    for number in range(nodes):
        (prepared if gated else make_node)(api, f"{namespace}-{number:03d}", -(-pods // nodes))
    seen, created = Bindings(plane.api(), namespace), {}
    own = GATE.closed({}) if gated else {}
    with scheduled(plane, ClusterSettings(namespace, GATE)) if gated else nullcontext():
        time.sleep(2.0)
        began = time.monotonic()
        for number in range(pods):
            if rate is not None:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
            name = f"p{number:04d}"
            created[name] = time.monotonic() if rate is None else began + number / rate  # open loop: from when it was due
            assert api.ask("POST", PODS.path(namespace), pod(name, spec=own, labels={"polyrhythm.dev/job": name})).taken
        submitted = time.monotonic() - began
        until(lambda: len(seen.bound) == pods, 300.0)
    waits = sorted(seen.bound[name] - at for name, at in created.items())
    result = {
        "pods": pods,
        "nodes": nodes,
        "offered_per_second": rate or pods / submitted,
        "bound_per_second": pods / (max(seen.bound.values()) - began),
        "wait_median": statistics.median(waits),
        "wait_p99": waits[int(0.99 * len(waits))],
        "overbooked_nodes": len(overbooked(api)),
    }
    clear(api, namespace)
    return result


def clear(api: Api, namespace: str) -> None:
    """Delete the nodes and the pods."""
    for job in api.ask("GET", JOBS.path(namespace)).body["items"]:
        api.ask("DELETE", JOBS.path(namespace, job["metadata"]["name"]), {"propagationPolicy": "Background"})
    for each in api.ask("GET", PODS.path(namespace)).body["items"]:
        api.ask("DELETE", PODS.path(namespace, each["metadata"]["name"]), {"gracePeriodSeconds": 0})
    for node in api.ask("GET", NODES.path("")).body["items"]:
        if node["metadata"]["name"].startswith(f"{namespace}-"):
            api.ask("DELETE", NODES.path("", node["metadata"]["name"]))


def timed(true: Callable[[], bool], seconds: float = 60.0) -> float:
    """The seconds until it is true."""
    began = time.monotonic()
    until(true, seconds)
    return time.monotonic() - began


def loss(plane: RealControlPlane, repeats: int) -> dict[str, list[float]]:
    """From a node's Ready going false, and from a device's, to the first eviction of its pods, and to all pods bound elsewhere."""
    found: dict[str, list[float]] = {"node_to_eviction": [], "node_to_all_elsewhere": [], "device_to_eviction": []}
    for number in range(repeats):
        for name, seconds in lost_once(plane, f"loss-{number}").items():
            found[name].append(seconds)
    return found


def lost_once(plane: RealControlPlane, namespace: str) -> dict[str, float]:
    """The seconds of one loss of a node, and then of a device."""
    api = plane.api()
    namespaced(api, namespace)
    for node in range(3):
        prepared(api, f"{namespace}-{node}", 2)
    kubelets = HollowKubelets(plane.api(), namespace)
    kubelets.start()

    def there() -> set[str]:
        return {each["metadata"]["uid"] for each in pods_of(api, namespace, "gang")}

    with scheduled(plane, ClusterSettings(namespace, GATE)):
        api.ask("POST", JOBS.path(namespace), training_job("gang", 4, GATE))
        until(lambda: len(bound(api, namespace, "gang")) == 4, 30.0)
        lost, before = bound(api, namespace, "gang")[0], there()
        kubelets.dead.add(lost)
        set_ready(api, lost, 2, status="Unknown")
        first = timed(lambda: not before <= there())
        moved = first + timed(lambda: len([node for node in bound(api, namespace, "gang") if node != lost]) == 4)
        now, node = there(), bound(api, namespace, "gang")[0]
        api.ask("PATCH", NODES.path("", node) + "/status", {"status": {"allocatable": {"nvidia.com/gpu": "1"}}})
        device = timed(lambda: not now <= there())
    kubelets.close()
    clear(api, namespace)
    return {"node_to_eviction": first, "node_to_all_elsewhere": moved, "device_to_eviction": device}


def outages(plane: RealControlPlane) -> dict[str, Any]:
    """Outages while jobs come: the API server is killed after a compaction, so that watches have a gap (410), and then etcd."""
    api, result = plane.api(), {}
    namespace = namespaced(api, "outages")
    for node in range(8):
        prepared(api, f"{namespace}-{node}", 8)
    seen = Bindings(plane.api(), namespace)
    with scheduled(plane, ClusterSettings(namespace, GATE)) as running:
        for round_, harm in enumerate((COMPACTION, KILL)):
            names = [f"gang-{round_}-{number}" for number in range(4)]
            for name in names[:2]:
                api.ask("POST", JOBS.path(namespace), training_job(name, 4, GATE))
            if harm == COMPACTION:
                plane.compact()
            else:
                plane.kill("etcd")
                time.sleep(1.0)
                plane.start_etcd()
                until(lambda: answers(api), 60.0)
            for name in names[2:]:
                until(lambda name=name: api.ask("POST", JOBS.path(namespace), training_job(name, 4, GATE)).taken, 60.0)
            until(lambda names=names: all(len(bound(api, namespace, name)) == 4 for name in names), 120.0)
            began = time.monotonic()
            until(lambda: equal(running, api, namespace), 30.0)
            result[harm] = time.monotonic() - began
    result["pods"] = sum(len(pods_of(api, namespace, f"gang-{r}-{n}")) for r in range(2) for n in range(4))
    result["bound_to_two_nodes"] = sum(len(nodes) > 1 for nodes in seen.nodes.values())
    result["overbooked_nodes"] = len(overbooked(api))
    clear(api, namespace)
    return result


def answers(api: Api) -> bool:
    """True if the API server is there."""
    try:
        return api.ask("GET", "/readyz").taken
    except RunError:
        return False


def equal(running: Any, api: Api, namespace: str) -> bool:
    """True if the scheduler's state has the pods of each gang where the API has them."""
    state = running.scheduler.state
    for name, placement in state.running.items():
        if sorted(slot.host for slot in placement.slots) != bound(api, namespace, name):
            return False
    return len(state.running) > 0


def main() -> None:
    """Run all, and print the figures."""
    options = argparse.ArgumentParser()
    options.add_argument("--pods", type=int, default=1000)
    options.add_argument("--nodes", type=int, default=125)
    options.add_argument("--turns", type=int, default=1)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="polyrhythm-rig-") as folder:
        plane = RealControlPlane(Path(folder) / "plane")
        began = time.monotonic()
        plane.start()
        results: dict[str, Any] = {"seconds_to_start": time.monotonic() - began}
        try:
            for turn in range(given.turns):
                for gated in (False, True):
                    name = f"all at once, {'gated' if gated else 'kube-scheduler alone'}, turn {turn}"
                    results[name] = throughput(plane, given.pods, given.nodes, None, gated)
                    print(name, json.dumps(results[name], indent=1), flush=True)
                    time.sleep(2.0)
            results["100 a second"] = throughput(plane, given.pods, given.nodes, 100.0)
            print(json.dumps(results["100 a second"], indent=1), flush=True)
            results["loss"] = loss(plane, given.repeats)
            print(json.dumps(results["loss"], indent=1), flush=True)
            results["outages"] = outages(plane)
            print(json.dumps(results["outages"], indent=1), flush=True)
        finally:
            plane.close()
    if given.json is not None:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
