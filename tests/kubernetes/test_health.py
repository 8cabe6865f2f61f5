"""What the conditions, the taints and the devices of a node mean."""

from __future__ import annotations

from typing import Any

import pytest
from hollow import DEVICE, pod
from schemas import problem

from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.kubernetes.gates import TaintGate
from polyrhythm.tools.scheduling.kubernetes.health import NodeHealth, dead_devices, node_health
from polyrhythm.tools.scheduling.kubernetes.quantities import quantity, requested

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
        (_node(TaintGate().preparation(_node())["spec"]["taints"][0]), NodeHealth()),  # type: ignore[index]
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
    assert dead_devices(_node(), [drawn]) == (4, {3}, 0)
    plugin = _node(allocatable=3)
    plugin["status"]["capacity"] = {DEVICE: "4"}
    assert dead_devices(plugin, []) == (4, frozenset(), 1)


def test_a_pod_asks_for_the_sum_of_its_containers_or_for_what_comes_before_them() -> None:
    two = pod("p", devices=2)
    two["spec"]["containers"].append({"name": "other", "resources": {"limits": {DEVICE: "1"}}})
    assert requested(two, DEVICE) == 3
    two["spec"]["initContainers"] = [{"name": "first", "resources": {"limits": {DEVICE: "4"}}}]
    assert requested(two, DEVICE) == 4


@pytest.mark.parametrize(("given", "amount"), [("2", 2.0), ("500m", 0.5), ("2Gi", 2.0 * 2**30), ("1e3", 1000.0), ("1.5k", 1500.0)])
def test_quantities(given: str, amount: float) -> None:
    assert quantity(given) == pytest.approx(amount)


def test_what_is_no_quantity_is_refused() -> None:
    with pytest.raises(CompositionError, match="is no quantity"):
        quantity("two")
