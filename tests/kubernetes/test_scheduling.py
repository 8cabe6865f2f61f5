"""Gangs of pods come to nodes as a whole, wait with a reason, shrink, and are taken up by whoever schedules next."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hollow import HollowKubelets, make_node, pod, set_ready, training_job
from planes import ControlPlane
from running import RunningScheduler, bound, overbooked, pods_of, scheduled
from waiting import until

from polyrhythm.cluster import FirstIn, SchedulerConfig
from polyrhythm.tools.scheduling.kubernetes.api import JOBS, NODES, PODS, Api
from polyrhythm.tools.scheduling.kubernetes.gangs import RECORD, gangs
from polyrhythm.tools.scheduling.kubernetes.gates import Gate, SchedulingGate, TaintGate
from polyrhythm.tools.scheduling.kubernetes.lease import LeaseTerms
from polyrhythm.tools.scheduling.kubernetes.scheduler import KubernetesScheduler
from polyrhythm.tools.scheduling.kubernetes.view import ClusterSettings

GATES: list[Gate] = [TaintGate(), SchedulingGate()]


@pytest.fixture(params=GATES, ids=lambda gate: type(gate).__name__)
def gate(request: pytest.FixtureRequest, plane: ControlPlane) -> Gate:
    """Every gate; on a real plane those of its age, which has no scheduling gates."""
    chosen: Gate = request.param
    return TaintGate() if plane.kind == "real" else chosen


@pytest.fixture
def kubelets(plane: ControlPlane, namespace: str) -> Iterator[HollowKubelets]:
    """Pods run, and go when they are deleted."""
    made = HollowKubelets(plane.api(), namespace)
    made.start()
    yield made
    made.close()


def submit(api: Api, namespace: str, job: dict[str, Any]) -> None:
    """Create the Job, and wait for its pods."""
    made = api.ask("POST", JOBS.path(namespace), job)
    assert made.taken, made.sentence
    name, size = job["metadata"]["name"], job["spec"]["parallelism"]
    until(lambda: len(pods_of(api, namespace, name)) == size)


def nodes(api: Api, namespace: str, gate: Gate, *devices: int) -> list[str]:
    """Nodes with so many devices each, onto which pods behind the gate do not come by themselves."""
    names = [f"{namespace}-{number}" for number in range(len(devices))]
    for name, count in zip(names, devices, strict=True):
        make_node(api, name, count)
        node = api.ask("GET", NODES.path("", name)).body
        while (patch := gate.preparation(node)) is not None:  # the controller of nodes writes all taints, and may write over ours
            version = {"resourceVersion": node["metadata"]["resourceVersion"]}
            api.ask("PATCH", NODES.path("", name), {**patch, "metadata": {**patch["metadata"], **version}})
            node = api.ask("GET", NODES.path("", name)).body
    return names


def test_a_gang_comes_as_a_whole_and_another_waits_with_a_reason(
    plane: ControlPlane, api: Api, namespace: str, gate: Gate, kubelets: HollowKubelets
) -> None:
    nodes(api, namespace, gate, 2, 2)
    with scheduled(plane, ClusterSettings(namespace, gate)) as running:
        submit(api, namespace, training_job("first", 3, gate))
        until(lambda: len(bound(api, namespace, "first")) == 3)
        submit(api, namespace, training_job("second", 2, gate))
        until(lambda: running.last is not None and "second" in running.last.pending)
        assert running.last is not None
        assert running.last.pending["second"] == "needs 2 workers in one cluster, and the best has room for 1: too few free devices"
        time.sleep(0.5)
        assert bound(api, namespace, "second") == []
        api.ask("DELETE", JOBS.path(namespace, "first"), {"propagationPolicy": "Background"})
        until(lambda: len(bound(api, namespace, "second")) == 2)
    assert overbooked(api) == {}


@pytest.mark.parametrize("patches", [1, 2, 3])
def test_a_scheduler_that_is_killed_between_two_pods_leaves_a_whole_gang(
    plane: ControlPlane, api: Api, namespace: str, gate: Gate, patches: int
) -> None:
    names = nodes(api, namespace, gate, 2, 2)
    submit(api, namespace, training_job("gang", 4, gate))
    script = Path(__file__).with_name("run_scheduler.py")
    command = [sys.executable, str(script), str(plane.kubeconfig), namespace, type(gate).__name__, str(patches)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert killed.returncode == -9, killed.stderr
    left = pods_of(api, namespace, "gang")
    signs = {gate.sign(node): node["metadata"]["name"] for node in api.ask("GET", NODES.path("")).body["items"]}
    found = gangs(left, gate, signs)["gang"]
    assert len(found.placed) == patches
    assert len(found.places) == 4
    assert not found.broken
    record = next(
        msgspec.json.decode(each["metadata"]["annotations"][RECORD]) for each in left if RECORD in each["metadata"]["annotations"]
    )
    with scheduled(plane, ClusterSettings(namespace, gate)):
        until(lambda: len(bound(api, namespace, "gang")) == 4)
    assert bound(api, namespace, "gang") == sorted([*names, *names])
    assert {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods_of(api, namespace, "gang")} == {
        name: node for name, (_, node, _) in record.items()
    }


def test_a_gang_that_loses_a_node_is_stopped_and_starts_elsewhere(
    plane: ControlPlane, api: Api, namespace: str, gate: Gate, kubelets: HollowKubelets
) -> None:
    names = nodes(api, namespace, gate, 2, 2, 2)
    with scheduled(plane, ClusterSettings(namespace, gate)):
        submit(api, namespace, training_job("gang", 4, gate))
        until(lambda: len(bound(api, namespace, "gang")) == 4)
        lost = bound(api, namespace, "gang")[0]
        kubelets.dead.add(lost)
        set_ready(api, lost, 2, status="Unknown")
        until(lambda: bound(api, namespace, "gang") == sorted([name for name in names if name != lost] * 2))


def test_an_elastic_gang_goes_on_with_fewer_and_grows_again(
    plane: ControlPlane, api: Api, namespace: str, gate: Gate, kubelets: HollowKubelets
) -> None:
    nodes(api, namespace, gate, 2, 2)
    with scheduled(plane, ClusterSettings(namespace, gate)):
        submit(api, namespace, training_job("crew", 4, gate, least=2))
        until(lambda: len(bound(api, namespace, "crew")) == 4)
        before = {each["metadata"]["uid"]: each["spec"]["nodeName"] for each in pods_of(api, namespace, "crew")}
        lost = f"{namespace}-0"
        set_ready(api, lost, 2, status="False")
        until(lambda: bound(api, namespace, "crew") == [f"{namespace}-1"] * 2)
        stayed = {each["metadata"]["uid"] for each in pods_of(api, namespace, "crew") if each["spec"].get("nodeName")}
        assert stayed == {uid for uid, node in before.items() if node != lost}
        set_ready(api, lost, 2)
        until(lambda: len(bound(api, namespace, "crew")) == 4)


def test_a_device_that_is_not_well_is_given_to_nobody(plane: ControlPlane, api: Api, namespace: str, kubelets: HollowKubelets) -> None:
    gate = TaintGate()
    (name,) = nodes(api, namespace, gate, 4)
    answer = api.ask("PATCH", NODES.path("", name) + "/status", {"status": {"allocatable": {"nvidia.com/gpu": "3"}}})
    assert answer.taken, answer.sentence
    with scheduled(plane, ClusterSettings(namespace, gate)) as running:
        submit(api, namespace, training_job("four", 4, gate))
        submit(api, namespace, training_job("three", 3, gate))
        until(lambda: len(bound(api, namespace, "three")) == 3)
        assert running.last is not None
        assert "four" in running.last.pending


def test_what_kube_scheduler_does_not_bind_is_taken_back(plane: ControlPlane, api: Api, namespace: str, kubelets: HollowKubelets) -> None:
    gate = TaintGate()
    (name,) = nodes(api, namespace, gate, 1)
    # it is taken by a pod that the scheduler cannot see in time: nobody's pod, bound by hand when the other was let in
    with scheduled(plane, ClusterSettings(namespace, gate, forget=1.0)):
        api.ask("PATCH", NODES.path("", name), {"metadata": {"labels": {"zone": "a"}}})
        job = training_job("picky", 1, gate)
        job["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "b"}
        submit(api, namespace, job)
        first = pods_of(api, namespace, "picky")[0]["metadata"]["uid"]
        until(lambda: [each["metadata"]["uid"] for each in pods_of(api, namespace, "picky")] not in ([first], []))
        api.ask("PATCH", NODES.path("", name), {"metadata": {"labels": {"zone": "b"}}})
        until(lambda: bound(api, namespace, "picky") == [name])


def test_pods_that_nobody_would_make_again_are_not_deleted(plane: ControlPlane, api: Api, namespace: str, kubelets: HollowKubelets) -> None:
    gate = TaintGate()
    (name,) = nodes(api, namespace, gate, 1)
    with scheduled(plane, ClusterSettings(namespace, gate, forget=0.5)):
        assert api.ask("POST", PODS.path(namespace), pod("alone", spec=gate.closed({}), labels={"polyrhythm.dev/job": "alone"})).taken
        until(lambda: bound(api, namespace, "alone") == [name])
        set_ready(api, name, 1, status="Unknown")
        time.sleep(1.0)
    assert [each["metadata"]["name"] for each in pods_of(api, namespace, "alone")] == ["alone"]


def test_one_of_two_schedulers_acts(plane: ControlPlane, api: Api, namespace: str) -> None:
    gate = TaintGate()
    nodes(api, namespace, gate, 4)
    terms = LeaseTerms(namespace, seconds=3.0)
    made = [KubernetesScheduler(plane.api(), ClusterSettings(namespace, gate), SchedulerConfig(FirstIn()), name, terms) for name in "ab"]
    with RunningScheduler(made[0]) as first:
        until(lambda: first.last is not None)
        with RunningScheduler(made[1]) as second:
            submit(api, namespace, training_job("gang", 2, gate))
            until(lambda: len(bound(api, namespace, "gang")) == 2)
            time.sleep(1.0)
            assert (first.acts, second.acts) == (1, 0)
            first.__exit__()
            submit(api, namespace, training_job("next", 2, gate))
            until(lambda: len(bound(api, namespace, "next")) == 2)
            assert second.acts == 1


def test_a_cordoned_node_keeps_its_pods_and_gets_no_new_ones(
    plane: ControlPlane, api: Api, namespace: str, gate: Gate, kubelets: HollowKubelets
) -> None:
    one, two = nodes(api, namespace, gate, 4, 1)
    with scheduled(plane, ClusterSettings(namespace, gate)):
        submit(api, namespace, training_job("first", 2, gate))
        until(lambda: bound(api, namespace, "first") == [one, one])
        assert api.ask("PATCH", NODES.path("", one), {"spec": {"unschedulable": True}}).taken
        submit(api, namespace, training_job("second", 1, gate))
        until(lambda: bound(api, namespace, "second") == [two])
        assert bound(api, namespace, "first") == [one, one]
