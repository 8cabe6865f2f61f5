"""What kube-scheduler does with a pod, as far as these tests need it: it binds a pod without gates to a node that fits, and no other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from stub_store import Item, Refused, StubFollower, StubStore

from polyrhythm.tools.scheduling.kubernetes.quantities import requested

_DEVICE = "nvidia.com/gpu"
_NAME = "default-scheduler"


class StubScheduler:
    """Looks at all pods after each change."""

    def __init__(self, store: StubStore) -> None:
        self._store = store
        self.follower = StubFollower(store, self._look)

    def _look(self) -> None:
        pods = self._store.listed("pods", "")["items"]
        nodes = self._store.listed("nodes", "")["items"]
        self._bind(pods, nodes)

    def _bind(self, pods: list[Item], nodes: list[Item]) -> None:
        used: dict[str, int] = {}
        for pod in pods:
            if (node := pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                used[node] = used.get(node, 0) + int(requested(pod, _DEVICE))
        for pod in (each for each in pods if _is_ours(each)):
            for node in nodes:
                name = node["metadata"]["name"]
                if _fits(pod, node, used.get(name, 0)):
                    used[name] = used.get(name, 0) + int(requested(pod, _DEVICE))
                    with suppress(Refused):  # it is being deleted
                        self._store.bind(pod["metadata"]["namespace"], pod["metadata"]["name"], {"target": {"name": name}})
                    break


def _is_ours(pod: Item) -> bool:
    spec = pod["spec"]
    return not spec.get("nodeName") and not spec.get("schedulingGates") and spec.get("schedulerName", _NAME) == _NAME


def _fits(pod: Item, node: Item, used: int) -> bool:
    labels = node["metadata"].get("labels", {})
    free = int(node.get("status", {}).get("allocatable", {}).get(_DEVICE, 0)) - used
    chosen = all(labels.get(name) == value for name, value in pod["spec"].get("nodeSelector", {}).items())
    tolerated = all(_tolerates(pod, taint) for taint in node["spec"].get("taints", []) if taint["effect"] != "PreferNoSchedule")
    return chosen and tolerated and int(requested(pod, _DEVICE)) <= free and not node["spec"].get("unschedulable")


def _tolerates(pod: Item, taint: dict[str, Any]) -> bool:
    for each in pod["spec"].get("tolerations", []):
        same = each.get("key") in (None, taint["key"]) and each.get("effect") in (None, taint["effect"])
        if same and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", "")):
            return True
    return False
