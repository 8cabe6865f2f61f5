"""Requests whose answers the scheduler relies on, and what a control plane of Kubernetes 1.20.2 answers."""

from __future__ import annotations

import time

from hollow import DEVICE, make_node, pod

from polyrhythm.tools.scheduling.kubernetes.api import LEASES, NODES, PODS, Api, ApiAnswer
from polyrhythm.tools.scheduling.kubernetes.gates import TaintGate

Said = dict[str, tuple[int, str]]

EXPECTED: Said = {
    "a pod that is there already": (409, "AlreadyExists"),
    "half a device": (422, "Invalid"),
    "a pod that is not there": (404, "NotFound"),
    "an unknown kind": (404, "NotFound"),
    "a patch of an old version": (409, "Conflict"),
    "a toleration more": (200, ""),
    "a toleration less": (422, "Invalid"),
    "another node selector of a pod that was let in": (422, "Invalid"),
    "an annotation": (200, ""),
    "a patch of a pod that is not there": (404, "NotFound"),
    "a deletion of another pod of that name": (409, "Conflict"),
    "a deletion": (200, ""),
    "a binding": (201, ""),
    "a second binding": (409, "Conflict"),
    "a lease": (201, ""),
    "a second lease": (409, "AlreadyExists"),
    "a lease of an old version": (409, "Conflict"),
    "a lease of this version": (200, ""),
}


def carried_out(api: Api, namespace: str) -> Said:
    """All requests, and the status and the reason of each answer. Nodes are named for the namespace."""
    said: Said = {}

    def note(what: str, answer: ApiAnswer) -> ApiAnswer:
        said[what] = (answer.status, answer.reason)
        return answer

    pods, gate = PODS.path(namespace), TaintGate()
    made = api.ask("POST", pods, pod("a"))
    assert made.taken, made.sentence
    one, two = PODS.path(namespace, "a"), PODS.path(namespace, "b")
    note("a pod that is there already", api.ask("POST", pods, pod("a")))
    halved = pod("half")
    halved["spec"]["containers"][0]["resources"]["limits"][DEVICE] = "0.5"
    note("half a device", api.ask("POST", pods, halved))
    note("a pod that is not there", api.ask("GET", PODS.path(namespace, "none")))
    note("an unknown kind", api.ask("GET", "/api/v1/nothings"))
    node = make_node_of(api, namespace)
    current = api.ask("GET", one).body
    versioned = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]}}
    assert api.ask("PATCH", one, {"metadata": {"labels": {"x": "y"}}}).taken
    note("a patch of an old version", api.ask("PATCH", one, {**versioned, "spec": gate.admission(current, node)}))
    note("a toleration more", api.ask("PATCH", one, {"spec": gate.admission(current, node)}))
    note("a toleration less", api.ask("PATCH", one, {"spec": {"tolerations": []}}))
    note("another node selector of a pod that was let in", api.ask("PATCH", one, {"spec": {"nodeSelector": {"x": "y"}}}))
    note("an annotation", api.ask("PATCH", one, {"metadata": {"annotations": {"x": "y"}}}))
    note("a patch of a pod that is not there", api.ask("PATCH", PODS.path(namespace, "none"), {"metadata": {"labels": {"x": "y"}}}))
    other = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    note("a deletion of another pod of that name", api.ask("DELETE", one, other))
    note("a deletion", api.ask("DELETE", one, {"preconditions": {"uid": current["metadata"]["uid"]}, "gracePeriodSeconds": 0}))
    assert api.ask("POST", pods, pod("b", spec={"schedulerName": "nobody's"})).taken
    target = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "b"},
        "target": {"kind": "Node", "name": node["metadata"]["name"]},
    }
    note("a binding", api.ask("POST", two + "/binding", target))
    note("a second binding", api.ask("POST", two + "/binding", target))
    _leases(api, namespace, note)
    return said


def make_node_of(api: Api, namespace: str) -> dict[str, object]:
    """A node that only pods which are let onto it can come to."""
    name = f"{namespace}-node"
    make_node(api, name, 4)
    for _ in range(50):  # the controllers of a real cluster write to a new node too
        node = api.ask("GET", NODES.path("", name)).body
        patch = TaintGate().preparation(node)
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        if patch is None or api.ask("PATCH", NODES.path("", name), {**patch, "metadata": {**patch["metadata"], **version}}).taken:
            return dict(node)
        time.sleep(0.05)
    raise AssertionError(f"{name} is changed again and again")


def _leases(api: Api, namespace: str, note: object) -> None:
    assert callable(note)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    made = note("a lease", api.ask("POST", LEASES.path(namespace), lease))
    note("a second lease", api.ask("POST", LEASES.path(namespace), lease))
    version = made.body["metadata"]["resourceVersion"]
    renewed = {**lease, "metadata": {"name": "l", "resourceVersion": version}, "spec": {"holderIdentity": "b"}}
    assert api.ask("PUT", LEASES.path(namespace, "l"), renewed).taken
    note("a lease of an old version", api.ask("PUT", LEASES.path(namespace, "l"), renewed))
    now = api.ask("GET", LEASES.path(namespace, "l")).body
    note("a lease of this version", api.ask("PUT", LEASES.path(namespace, "l"), {**now, "spec": {"holderIdentity": "c"}}))
