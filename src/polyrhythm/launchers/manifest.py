"""Kubernetes objects: an Indexed Job whose pods are the workers of a run, their variables, and a Service by which they find each other."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyrhythm.errors import NoProgressError

Manifest = dict[str, Any]

LABEL = "batch.kubernetes.io/job-name"
INDEX = "batch.kubernetes.io/job-completion-index"
"""A label and an annotation that Kubernetes gives to the pods of an Indexed Job."""
INSTANCE = "app.kubernetes.io/instance"
"""A label of all objects of one run."""
_REFUSED = 2
"""The exit code of a worker for what cannot be run, now or later."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of the job `name`: what each asks for, and how many of their failures are replaced.

    `claim` is a PersistentVolumeClaim, mounted at `mount`.
    """

    name: str
    image: str
    workers: int
    cpus: float
    memory: str
    gpus: int
    threads: int
    failures: int
    claim: str | None = None
    mount: str = "/data"


def secret(name: str, values: Mapping[str, str]) -> Manifest:
    """A Secret with these `values`."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": _metadata(name), "type": "Opaque", "data": encoded}


def service(name: str, port: int) -> Manifest:
    """The headless Service by which pods find pod 0, also before it is ready, which is when all have found it."""
    ports = [{"name": "rendezvous", "port": port, "protocol": "TCP"}]
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {LABEL: name}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(name), "spec": spec}


def indexed_job(pods: Pods, command: Sequence[str], environment: Sequence[Manifest]) -> Manifest:
    """The Job whose pods run `command`. A pod that fails or is lost is replaced by one of the same index."""
    # a new pod for each failure, and not a container that is started again in it: the old one says why, and the new one may be elsewhere
    final = {"containerName": "worker", "operator": "In", "values": [_REFUSED, NoProgressError.EXIT_CODE]}
    rules = [
        {"action": "FailJob", "onExitCodes": final},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    spec = {
        "completionMode": "Indexed",
        "completions": pods.workers,
        "parallelism": pods.workers,
        "backoffLimit": pods.failures,
        "podFailurePolicy": {"rules": rules},
        "template": {"metadata": {"labels": _labels(pods.name)}, "spec": _pod(pods, command, environment)},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(pods.name), "spec": spec}


def variable(name: str, value: object) -> Manifest:
    """An environment variable of a container."""
    return {"name": name, "value": str(value)}


def from_field(name: str, path: str) -> Manifest:
    """A variable with a field that Kubernetes keeps of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def from_secret(name: str, owner: str, key: str) -> Manifest:
    """A variable with the value under `key` in the Secret `owner`."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": owner, "key": key}}}


def ranks(workers: int) -> list[Manifest]:
    """Variables that say which of the workers a pod is. Each counts as a separate host: pods of one node have no sockets in common."""
    found = [from_field("RANK", f"metadata.annotations['{INDEX}']"), from_field("POLYRHYTHM_HOST_ID", "metadata.name")]
    return [*found, from_field("POLYRHYTHM_HOST_ADDR", "status.podIP"), variable("WORLD_SIZE", workers), variable("LOCAL_RANK", 0)]


def _pod(pods: Pods, command: Sequence[str], environment: Sequence[Manifest]) -> Manifest:
    resources: Manifest = {"requests": {"cpu": f"{pods.cpus:g}", "memory": pods.memory}, "limits": {"memory": pods.memory}}
    if pods.gpus:
        resources["limits"]["nvidia.com/gpu"] = str(pods.gpus)
    threads = [variable("OMP_NUM_THREADS", pods.threads), variable("PYTHONUNBUFFERED", 1)]
    container: Manifest = {"name": "worker", "image": pods.image, "command": list(command), "env": [*environment, *threads]}
    container["resources"] = resources
    # a container's own 64 MB of shared memory are too little for the processes of a DataLoader
    volumes: list[Manifest] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    if pods.claim is not None:
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": pods.claim}})
        mounts.append({"name": "data", "mountPath": pods.mount})
    container["volumeMounts"] = mounts
    return {
        "restartPolicy": "Never",
        "subdomain": pods.name,
        "containers": [container],
        "volumes": volumes,
        "automountServiceAccountToken": False,
    }


def _metadata(name: str) -> Manifest:
    return {"name": name, "labels": _labels(name)}


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "polyrhythm", INSTANCE: name}
