"""What the cluster has of a gang says who is in, and who still has to be let in."""

from __future__ import annotations

from typing import Any

import pytest
from hollow import pod

from polyrhythm.cluster import Queue
from polyrhythm.tools.scheduling.kubernetes.gangs import DEVICES, JOB, LEAST, RECORD, SIZE, gangs, recorded
from polyrhythm.tools.scheduling.kubernetes.gates import SchedulingGate
from polyrhythm.tools.scheduling.kubernetes.view import ClusterSettings, cluster_view

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


@pytest.mark.parametrize(
    ("labels", "annotations", "words"),
    [
        ({"polyrhythm.dev/queue": "typo"}, {}, "No queue is called 'typo'"),
        ({}, {SIZE: "two"}, "is 'two': give a number"),
        ({}, {SIZE: "4000000000"}, "is '4000000000': give a number from 0 to"),
        ({}, {DEVICES: "0,4000000000"}, "give numbers below"),
        ({}, {RECORD: '{"g-0": 3}'}, "cannot be read"),
    ],
)
def test_a_gang_that_cannot_be_read_waits_with_a_sentence_and_no_other_does(
    labels: dict[str, str], annotations: dict[str, str], words: str
) -> None:
    bad = [pod("bad-0", spec=GATE.closed({}), labels={JOB: "bad", **labels}, annotations=annotations, uid="b0")]
    pods = [{**each, "metadata": {**each["metadata"], "namespace": "default"}} for each in (*_pods(2), *bad)]
    view = cluster_view([], pods, [], ClusterSettings(gate=GATE, queues=(Queue("default"),)))
    assert list(view.gangs) == ["g"]
    assert words in view.refused["bad"]
