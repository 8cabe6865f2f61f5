"""A pod behind a gate waits, and one that was let onto a node comes to that node and to no other."""

from __future__ import annotations

import time

import pytest
from hollow import make_node, pod
from planes import ControlPlane
from schemas import problem
from waiting import until

from polyrhythm.tools.scheduling.kubernetes.api import NODES, PODS, Api
from polyrhythm.tools.scheduling.kubernetes.gates import Gate, SchedulingGate, TaintGate

GATES: list[Gate] = [TaintGate(), SchedulingGate()]


@pytest.fixture(params=GATES, ids=lambda gate: type(gate).__name__)
def gate(request: pytest.FixtureRequest, plane: ControlPlane) -> Gate:
    """Every gate; on a real plane those of its age, which has no scheduling gates."""
    chosen: Gate = request.param
    return TaintGate() if plane.kind == "real" else chosen


def _nodes(api: Api, namespace: str, gate: Gate) -> dict[str, str]:
    for number in range(2):
        name = f"{namespace}-{number}"
        make_node(api, name, 2)
        patch = gate.preparation(api.ask("GET", NODES.path("", name)).body)
        assert patch is None or api.ask("PATCH", NODES.path("", name), patch).taken
    every = api.ask("GET", NODES.path("")).body["items"]
    return {gate.sign(node): node["metadata"]["name"] for node in every}


def test_a_pod_waits_until_it_is_let_in_and_comes_to_its_node(gate: Gate, api: Api, namespace: str) -> None:
    nodes, path = _nodes(api, namespace, gate), PODS.path(namespace, "p")
    # other tests' nodes are for pods without a gate: this pod must not come to them, so it wants more than they have
    made = api.ask("POST", PODS.path(namespace), pod("p", devices=2, spec=gate.closed({"nodeSelector": {}})))
    assert made.taken, made.sentence
    time.sleep(0.5)
    waiting = api.ask("GET", path).body
    assert gate.waits(waiting)
    assert gate.admitted(waiting, nodes) is None
    node = api.ask("GET", NODES.path("", f"{namespace}-1")).body
    assert api.ask("PATCH", path, {"spec": gate.admission(waiting, node)}).taken
    until(lambda: bool(api.ask("GET", path).body["spec"].get("nodeName")))
    bound = api.ask("GET", path).body
    assert bound["spec"]["nodeName"] == f"{namespace}-1" == gate.admitted(bound, nodes)
    assert not gate.waits(bound)


def test_a_pod_that_is_let_onto_a_full_node_waits_and_goes_nowhere_else(gate: Gate, api: Api, namespace: str) -> None:
    _nodes(api, namespace, gate)
    node = api.ask("GET", NODES.path("", f"{namespace}-0")).body
    for name in ("first", "second"):
        made = api.ask("POST", PODS.path(namespace), pod(name, devices=2, spec=gate.closed({})))
        assert api.ask("PATCH", PODS.path(namespace, name), {"spec": gate.admission(made.body, node)}).taken
        until(lambda: bool(api.ask("GET", PODS.path(namespace, "first")).body["spec"].get("nodeName")))
    time.sleep(0.7)
    assert "nodeName" not in api.ask("GET", PODS.path(namespace, "second")).body["spec"]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: type(gate).__name__)
def test_what_a_gate_writes_fits_the_published_schemas(gate: Gate) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n" * 80, "labels": {}}, "spec": {}}
    patch = gate.preparation(node)
    assert problem({**node, **({"spec": patch["spec"]} if patch else {})}) == ""
    waiting = pod("p", spec=gate.closed({"nodeSelector": {"zone": "a"}}))
    assert problem(waiting) == ""
    let_in = {**waiting, "spec": {**waiting["spec"], **gate.admission(waiting, node)}}
    assert problem(let_in) == ""
    assert gate.admitted(let_in, {gate.sign(node): "n"}) == "n"
    assert let_in["spec"]["nodeSelector"]["zone"] == "a"


def test_the_gates_of_others_stay() -> None:
    gate, node = SchedulingGate(), {"metadata": {"name": "n"}}
    waiting = pod("p", spec=gate.closed({"schedulingGates": [{"name": "another.dev/gate"}]}))
    assert gate.admission(waiting, node)["schedulingGates"] == [{"name": "another.dev/gate"}]
