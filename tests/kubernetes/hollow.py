"""Nodes without machines, and what kubelets say of them: leases that are renewed, pods that run, and pods that are gone when deleted."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from polyrhythm.errors import RunError
from polyrhythm.tools.scheduling.kubernetes.api import LEASES, NODES, PODS, Api
from polyrhythm.tools.scheduling.kubernetes.gates import HOSTNAME, Gate
from polyrhythm.tools.scheduling.kubernetes.waiting_job import waiting_job

DEVICE = "nvidia.com/gpu"
_MERGE_SECONDS = 0.1


def make_node(api: Api, name: str, devices: int, cores: int = 32) -> None:
    """A node with so many devices, which is ready."""
    labels = {HOSTNAME: name}
    made = api.ask("POST", NODES.path(""), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    assert made.taken, made.sentence
    set_ready(api, name, devices, cores=cores)
    taints = [taint for taint in made.body["spec"].get("taints", []) if taint["key"] != "node.kubernetes.io/not-ready"]
    assert api.ask("PATCH", NODES.path("", name), {"spec": {"taints": taints}}).taken


def set_ready(api: Api, name: str, devices: int, status: str = "True", cores: int = 32) -> None:
    """What a kubelet says of its node."""
    amounts = {DEVICE: str(devices), "cpu": str(cores), "memory": "64Gi", "pods": "200"}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": status, "reason": "Kubelet", "lastHeartbeatTime": now, "lastTransitionTime": now}
    said = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    answer = api.ask("PATCH", NODES.path("", name) + "/status", {"status": said})
    assert answer.taken, answer.sentence


def pod(name: str, devices: int = 1, spec: Mapping[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod that asks for so many devices."""
    container = {"name": "worker", "image": "none", "resources": {"limits": {DEVICE: str(devices)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container], **(spec or {})},
    }


def training_job(name: str, workers: int, gate: Gate, devices: int = 1, least: int | None = None) -> dict[str, Any]:
    """A Job of so many pods, each with so many devices, which wait for a decision."""
    template = {"metadata": {}, "spec": {**pod("none", devices)["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": workers, "completions": workers, "backoffLimit": 1000, "template": template}
    return waiting_job({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}, gate, least)


class HollowKubelets:
    """A thread that plays the kubelets of all nodes but those in `dead`: pods run, and go when they are deleted."""

    def __init__(self, api: Api, namespace: str, leases: bool = False) -> None:
        self._api = api
        self._namespace = namespace
        self._leases = leases
        self.dead: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_MERGE_SECONDS):
            try:
                self._look()
            except RunError:  # the server is away
                self._over.wait(0.5)

    def _look(self) -> None:
        for each in self._api.ask("GET", PODS.path(self._namespace)).body.get("items", []):
            node, path = each["spec"].get("nodeName"), PODS.path(self._namespace, each["metadata"]["name"])
            if not node or node in self.dead:
                continue
            if each["metadata"].get("deletionTimestamp"):
                self._api.ask("DELETE", path, {"gracePeriodSeconds": 0})
            elif each["status"]["phase"] == "Pending":
                self._api.ask("PATCH", path + "/status", {"status": {"phase": "Running"}})
        if self._leases:
            self._renew()

    def _renew(self) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for node in self._api.ask("GET", NODES.path("")).body.get("items", []):
            name = node["metadata"]["name"]
            if name in self.dead:
                continue
            spec = {"holderIdentity": name, "leaseDurationSeconds": 4, "renewTime": now}
            if not self._api.ask("PATCH", LEASES.path("kube-node-lease", name), {"spec": spec}).taken:
                lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
                self._api.ask("POST", LEASES.path("kube-node-lease"), lease)
