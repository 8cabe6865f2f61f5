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


def devices(node: Manifest, slices: Iterable[Manifest] = (), resource: str = DEVICE) -> int:
    """The devices that pods may have there: what the node says is allocatable, less those that a driver has tainted.

    Drivers of Dynamic Resource Allocation taint a device that is not well in its ResourceSlice (Kubernetes 1.36); a device plugin lowers
    what is allocatable.
    """
    name = node["metadata"]["name"]
    listed = [device for each in slices if each["spec"].get("nodeName") == name for device in each["spec"].get("devices", [])]
    if listed:
        return sum(not any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in device.get("taints", [])) for device in listed)
    return int(node.get("status", {}).get("allocatable", {}).get(resource, 0))


def asked(pod: Manifest, resource: str = DEVICE) -> int:
    """The devices that a pod needs: the sum over its containers, or more where one that runs before them needs more."""
    spec = pod["spec"]
    own = sum(_limit(each, resource) for each in spec["containers"])
    return max([own, *(_limit(each, resource) for each in spec.get("initContainers", []))])


def _limit(container: Manifest, resource: str) -> int:
    resources = container.get("resources", {})
    return int(resources.get("limits", {}).get(resource) or resources.get("requests", {}).get(resource) or 0)
