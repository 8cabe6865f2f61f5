"""What the cluster has of a gang says who is in, and who still has to be let in."""

from __future__ import annotations

from typing import Any

from hollow import pod

from polyrhythm.tools.scheduling.kubernetes.gangs import JOB, LEAST, SIZE, gangs, recorded
from polyrhythm.tools.scheduling.kubernetes.gates import SchedulingGate

GATE = SchedulingGate()
NODES = {name: name for name in ("a", "b")}


def _pods(count: int, **annotations: str) -> list[dict[str, Any]]:
    labels = {JOB: "g"}
    found = [pod(f"g-{k}", spec=GATE.closed({}), labels=labels, annotations=dict(annotations), uid=f"u{k}") for k in range(count)]
    return [{**each, "status": {"phase": "Pending"}} for each in found]


def _let_in(each: dict[str, Any], node: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    annotations = {**each["metadata"]["annotations"], **(metadata or {}).get("annotations", {})}
    spec = {**each["spec"], **GATE.admission(each, {"metadata": {"name": node}})}
    return {**each, "metadata": {**each["metadata"], "annotations": annotations}, "spec": spec}


def test_after_the_first_pod_the_whole_gang_has_its_room() -> None:
    pods = _pods(3)
    where = {"g-0": "a", "g-1": "a", "g-2": "b"}
    assert gangs(pods, GATE, NODES)["g"].waiting == list(where)
    found = gangs(
        [_let_in(pods[0], "a", {"annotations": recorded(pods, {name: (node, (0,)) for name, node in where.items()})}), *pods[1:]],
        GATE,
        NODES,
    )["g"]
    assert found.placed == {"g-0": ("a", None)}
    assert found.promised == {"g-1": ("a", (0,)), "g-2": ("b", (0,))}
    assert {name: node for name, (node, _) in found.places.items()} == where
    assert not found.broken


def test_another_pod_of_the_same_name_was_not_decided_about() -> None:
    pods = _pods(2)
    first = _let_in(pods[0], "a", {"annotations": recorded(pods, {"g-0": ("a", (0,)), "g-1": ("b", (0,))})})
    other = {**pods[1], "metadata": {**pods[1]["metadata"], "uid": "another"}}
    found = gangs([first, other], GATE, NODES)["g"]
    assert found.promised == {}
    assert found.waiting == ["g-1"]
    assert found.broken


def test_a_gang_that_can_be_fewer_is_whole_with_the_least() -> None:
    pods = _pods(3, **{LEAST: "2", SIZE: "4"})
    found = gangs([_let_in(pods[0], "a"), _let_in(pods[1], "b"), pods[2]], GATE, NODES)["g"]
    assert (found.size, found.least, found.broken) == (4, 2, False)


def test_pods_that_have_ended_or_are_deleted_are_in_no_gang() -> None:
    one, two, three = _pods(3)
    one["status"]["phase"] = "Succeeded"
    two["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = gangs([one, two, three], GATE, NODES)["g"]
    assert (list(found.pods), found.ended) == (["g-2"], 1)
