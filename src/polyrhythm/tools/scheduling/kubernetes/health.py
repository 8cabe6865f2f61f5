"""The health of a node: whether pods may come to it, whether those on it still run, and how many of its devices are well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polyrhythm.launchers.manifest import Manifest
from polyrhythm.tools.scheduling.kubernetes.gates import KEY

DEVICE = "nvidia.com/gpu"
_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service")


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """`lost` where what runs on the node must be taken to be gone; `closed` where nothing new may come; and a reason for either."""

    lost: bool = False
    closed: bool = False
    reason: str = ""


def node_health(node: Manifest) -> NodeHealth:
    """The health of a node by its conditions and its taints. The gate's own taint closes nothing."""
    ready = next((each for each in node.get("status", {}).get("conditions", []) if each["type"] == "Ready"), None)
    taints = [each for each in node["spec"].get("taints", []) if each["key"] != KEY and each["effect"] != "PreferNoSchedule"]
    if ready is not None and ready["status"] != "True":
        return NodeHealth(True, True, f"not ready: {ready.get('reason') or ready['status']}")
    for taint in taints:
        if taint["key"] in _LOST:
            return NodeHealth(True, True, f"taint {taint['key']}")
    if node["spec"].get("unschedulable"):
        return NodeHealth(False, True, "cordoned")
    if taints:
        return NodeHealth(any(each["effect"] == "NoExecute" for each in taints), True, f"taint {taints[0]['key']}")
    return NodeHealth() if ready is not None else NodeHealth(False, True, "no condition Ready yet")


def dead_devices(node: Manifest, slices: Iterable[Manifest], resource: str = DEVICE) -> tuple[int, frozenset[int], int]:
    """The devices of a node: how many there are, the numbers of those that a driver has tainted, and how many more are not well.

    Drivers of Dynamic Resource Allocation taint a device that is not well in its ResourceSlice (Kubernetes 1.36), so that one knows which
    it is; a device plugin lowers what is allocatable, and one knows only how many.
    """
    name = node["metadata"]["name"]
    listed = [device for each in slices if each["spec"].get("nodeName") == name for device in each["spec"].get("devices", [])]
    if listed:
        return len(listed), frozenset(number for number, device in enumerate(listed) if _is_dead(device)), 0
    status = node.get("status", {})
    there = int(status.get("capacity", {}).get(resource, 0))
    return there, frozenset(), max(0, there - int(status.get("allocatable", {}).get(resource, there)))


def _is_dead(device: Manifest) -> bool:
    return any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in device.get("taints", []))
