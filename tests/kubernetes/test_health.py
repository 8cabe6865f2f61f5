"""What the conditions, the taints and the devices of a node mean."""

from __future__ import annotations

from typing import Any

import pytest
from hollow import DEVICE, pod
from schemas import problem

from polyrhythm.tools.scheduling.kubernetes.gates import TaintGate
from polyrhythm.tools.scheduling.kubernetes.health import NodeHealth, asked, devices, node_health

READY = {"type": "Ready", "status": "True"}


def _node(
    *taints: dict[str, str], ready: dict[str, str] | None = READY, unschedulable: bool = False, allocatable: int = 4
) -> dict[str, Any]:
    spec: dict[str, Any] = {"taints": list(taints), **({"unschedulable": True} if unschedulable else {})}
    status = {"conditions": [ready] if ready else [], "allocatable": {DEVICE: str(allocatable)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("node", "health"),
    [
        (_node(), NodeHealth()),
        (_node({"key": "k", "effect": "PreferNoSchedule"}), NodeHealth()),
        (_node({"key": "k", "effect": "NoSchedule"}), NodeHealth(False, True, "taint k")),
        (_node({"key": "k", "effect": "NoExecute"}), NodeHealth(True, True, "taint k")),
        (_node(unschedulable=True), NodeHealth(False, True, "cordoned")),
        (
            _node({"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}),
            NodeHealth(True, True, "taint node.kubernetes.io/unreachable"),
        ),
        (
            _node(ready={"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}),
            NodeHealth(True, True, "not ready: NodeStatusUnknown"),
        ),
        (_node(ready=None), NodeHealth(False, True, "no condition Ready yet")),
        (_node(TaintGate().preparation(_node())["taints"][0]), NodeHealth()),  # type: ignore[index]
    ],
)
def test_conditions_and_taints(node: dict[str, Any], health: NodeHealth) -> None:
    assert problem(node) == ""
    assert node_health(node) == health


def test_devices_that_a_driver_has_tainted_are_not_counted() -> None:
    taint = {"key": "gpu.example.com/unhealthy", "effect": "NoExecute"}
    listed = [{"name": f"gpu-{number}"} for number in range(3)] + [{"name": "gpu-3", "taints": [taint]}]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    metadata = {"name": "n-gpus"}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": listed}
    drawn = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
    assert problem(drawn) == ""
    assert devices(_node(), [drawn]) == 3
    assert devices(_node(allocatable=7)) == 7


def test_a_pod_asks_for_the_sum_of_its_containers_or_for_what_comes_before_them() -> None:
    two = pod("p", devices=2)
    two["spec"]["containers"].append({"name": "other", "resources": {"limits": {DEVICE: "1"}}})
    assert asked(two) == 3
    two["spec"]["initContainers"] = [{"name": "first", "resources": {"limits": {DEVICE: "4"}}}]
    assert asked(two) == 4
