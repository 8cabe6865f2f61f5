"""A scheduler in a thread, and what tests look at."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hollow import DEVICE
from planes import ControlPlane

from polyrhythm.cluster import FirstIn, SchedulerConfig
from polyrhythm.tools.scheduling.backend import SchedulerRound
from polyrhythm.tools.scheduling.kubernetes.api import NODES, PODS, Api
from polyrhythm.tools.scheduling.kubernetes.gangs import JOB
from polyrhythm.tools.scheduling.kubernetes.quantities import requested
from polyrhythm.tools.scheduling.kubernetes.scheduler import KubernetesScheduler
from polyrhythm.tools.scheduling.kubernetes.view import ClusterSettings


class RunningScheduler:
    """A scheduler that runs, and what it said last."""

    def __init__(self, scheduler: KubernetesScheduler) -> None:
        self.scheduler = scheduler
        self.last: SchedulerRound | None = None
        self.acts = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=scheduler.run, args=(self._over.is_set, self._told))

    def __enter__(self) -> RunningScheduler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _told(self, done: SchedulerRound) -> None:
        self.last = done
        self.acts += len(done.done)


@contextmanager
def scheduled(plane: ControlPlane, settings: ClusterSettings) -> Iterator[RunningScheduler]:
    """A scheduler, first in first out, while the block runs."""
    with RunningScheduler(KubernetesScheduler(plane.api(), settings, SchedulerConfig(FirstIn()), "tests")) as running:
        yield running


def pods_of(api: Api, namespace: str, job: str) -> list[dict[str, Any]]:
    """The living pods of a gang."""
    items = api.ask("GET", PODS.path(namespace), query={"labelSelector": f"{JOB}={job}"}).body["items"]
    return [
        item
        for item in items
        if not item["metadata"].get("deletionTimestamp") and item["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def bound(api: Api, namespace: str, job: str) -> list[str]:
    """The nodes of the pods of a gang that are bound."""
    return sorted(item["spec"]["nodeName"] for item in pods_of(api, namespace, job) if item["spec"].get("nodeName"))


def overbooked(api: Api) -> dict[str, float]:
    """The nodes that have more pods than devices, and by how many devices."""
    has = {
        node["metadata"]["name"]: int(node["status"].get("capacity", {}).get(DEVICE, 0))
        for node in api.ask("GET", NODES.path("")).body["items"]
    }
    used: Counter[str] = Counter()
    for item in api.ask("GET", PODS.path("")).body["items"]:
        if item["spec"].get("nodeName") and item["status"].get("phase") not in ("Succeeded", "Failed"):
            used[item["spec"]["nodeName"]] += int(requested(item, DEVICE))
    return {name: count - has.get(name, 0) for name, count in used.items() if count > has.get(name, 0)}
