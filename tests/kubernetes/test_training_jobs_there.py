"""`polyrhythm cluster run --through kubernetes`: the jobs of a list are Jobs whose pods wait, come to nodes as gangs, and end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hollow import HollowKubelets, make_node, set_ready
from planes import ControlPlane
from running import bound, pods_of
from waiting import until

from polyrhythm.cluster import (
    Cluster,
    ClusterHost,
    ClusterJob,
    ClusterState,
    FirstIn,
    NoPreemption,
    SchedulerConfig,
    WorkerDemand,
    WorkerSlot,
)
from polyrhythm.cluster.predicted import Forecast, PredictedPlacement
from polyrhythm.errors import CompositionError
from polyrhythm.launchers import Kubernetes
from polyrhythm.tools.scheduling.backend import SchedulerRound, schedule_once
from polyrhythm.tools.scheduling.engines import EngineChoice, backend_through
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.kubernetes.api import JOBS, PODS, SECRETS, SERVICES, Api
from polyrhythm.tools.scheduling.training_jobs import TrainingJob, TrainingOrder

ONE_DEVICE = WorkerDemand(devices=1)


class Rounds:
    """Jobs that are carried out in rounds on two nodes with two devices each."""

    def __init__(self, folder: Path, namespace: str, *jobs: ClusterJob, machines: Mapping[str, str] | None = None, **train: Any) -> None:
        names = [f"{namespace}-{number}" for number in range(2)]
        self.cluster = Cluster("k", tuple(ClusterHost(name, cores=8, machine=(machines or {}).get(name, "cpu-core")) for name in names))
        self.config = SchedulerConfig(FirstIn())
        given = [TrainingJob(job, TrainingOrder("digits-mlp", **train)) for job in jobs]
        settings = HostSettings(folder, interval=0.05)
        choice = EngineChoice(self.cluster, given, settings, lambda _: Kubernetes("registry.local/trainer:3", namespace), time.monotonic())
        self.backend = backend_through("kubernetes", choice)
        assert self.backend.ready()
        self.state = ClusterState(self.cluster)

    def until(self, true: Callable[[SchedulerRound], bool], seconds: float = 20.0) -> None:
        """Rounds until it is true."""
        deadline = time.monotonic() + seconds
        while True:
            done = schedule_once(self.backend, self.state, time.monotonic(), self.config)
            self.state = done.state
            if true(done):
                return
            assert time.monotonic() < deadline, (self.state.running, self.backend.runs, done.pending)
            time.sleep(0.02)


@pytest.fixture
def there(plane: ControlPlane, api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[HollowKubelets]:
    """Two nodes of SITE, one of others, and kubelets."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    for number in range(3):
        make_node(api, f"{namespace}-{number}", 2)
    made = HollowKubelets(plane.api(), namespace)
    made.start()
    yield made
    made.close()


def say(api: Api, namespace: str, job: str, **status: Any) -> None:
    """What the controller of Jobs would say."""
    answer = api.ask("PATCH", JOBS.path(namespace, job) + "/status", {"status": status})
    assert answer.taken, answer.sentence


def test_a_gang_comes_to_the_nodes_of_the_site_and_another_waits_until_it_has_ended(
    there: HollowKubelets, api: Api, namespace: str, tmp_path: Path
) -> None:
    rounds = Rounds(tmp_path, namespace, ClusterJob("first", ONE_DEVICE, workers=4), ClusterJob("second", ONE_DEVICE, workers=2))
    rounds.until(lambda done: len(bound(api, namespace, "first")) == 4 and "second" in done.pending)
    assert set(bound(api, namespace, "first")) == {f"{namespace}-0", f"{namespace}-1"}  # the third is not of the site
    container = pods_of(api, namespace, "first")[0]["spec"]["containers"][0]
    named = {each["name"]: each.get("value") for each in container["env"]}
    assert named["MASTER_ADDR"] == "first-0.first"
    assert named["WORLD_SIZE"] == "4"
    assert named["POLYRHYTHM_SECRET"] is None  # it is in the Secret only
    assert container["command"][:5] == ["python", "-m", "polyrhythm", "join", "digits-mlp"]
    owner = api.ask("GET", SECRETS.path(namespace, "first")).body["metadata"]["ownerReferences"][0]["uid"]
    assert owner == api.ask("GET", JOBS.path(namespace, "first")).body["metadata"]["uid"]
    assert api.ask("GET", SERVICES.path(namespace, "first")).taken
    for pod in pods_of(api, namespace, "first"):
        api.ask("PATCH", PODS.path(namespace, pod["metadata"]["name"]) + "/status", {"status": {"phase": "Succeeded"}})
    say(api, namespace, "first", succeeded=4, conditions=[{"type": "Complete", "status": "True"}])
    rounds.until(lambda _: rounds.backend.runs["first"].over == "ended" and len(bound(api, namespace, "second")) == 2)
    say(api, namespace, "second", conditions=[{"type": "Failed", "status": "True", "message": "Job has reached the backoff limit"}])
    rounds.until(lambda _: rounds.backend.over)
    assert rounds.backend.runs["second"].reason == "Job has reached the backoff limit"
    rounds.backend.close()


def test_a_crew_goes_on_with_fewer_where_a_node_is_lost_and_is_deleted_at_the_end_of_the_command(
    there: HollowKubelets, api: Api, namespace: str, tmp_path: Path
) -> None:
    rounds = Rounds(tmp_path, namespace, ClusterJob("crew", ONE_DEVICE, workers=4, min_workers=2))
    rounds.until(lambda _: len(bound(api, namespace, "crew")) == 4)
    set_ready(api, f"{namespace}-0", 2, status="False")
    rounds.until(lambda _: bound(api, namespace, "crew") == [f"{namespace}-1"] * 2)
    assert rounds.backend.health == {f"{namespace}-0": "dead", f"{namespace}-1": "healthy"}
    rounds.backend.close()
    assert not api.ask("GET", JOBS.path(namespace, "crew")).taken


def test_what_cannot_be_is_refused_and_leaves_nothing(there: HollowKubelets, api: Api, namespace: str, tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match="give --engine claim="):
        Rounds(tmp_path, namespace, ClusterJob("kept", workers=2), every=10)
    containers = [{"name": "one", "image": "anything:1"}]
    template = {"metadata": {"labels": {"job": "one"}}, "spec": {"containers": containers, "restartPolicy": "Never"}}
    spec = {"parallelism": 1, "completions": 1, "template": template}
    foreign = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}, "spec": spec}
    assert api.ask("POST", JOBS.path(namespace), foreign).taken
    with pytest.raises(CompositionError, match="did not take the Job 'one'"):
        Rounds(tmp_path, namespace, ClusterJob("two"), ClusterJob("one"))
    assert [each["metadata"]["name"] for each in api.ask("GET", JOBS.path(namespace)).body["items"]] == ["one"]


def test_another_scheduler_takes_over_what_one_that_was_killed_has_made(
    there: HollowKubelets, api: Api, namespace: str, tmp_path: Path
) -> None:
    first = Rounds(tmp_path, namespace, ClusterJob("pair", ONE_DEVICE, workers=2))
    first.until(lambda _: len(bound(api, namespace, "pair")) == 2)
    pods = {pod["metadata"]["uid"] for pod in pods_of(api, namespace, "pair")}
    second = Rounds(tmp_path, namespace, ClusterJob("pair", ONE_DEVICE, workers=2))
    second.until(lambda _: "pair" in second.state.running)
    assert {pod["metadata"]["uid"] for pod in pods_of(api, namespace, "pair")} == pods
    second.backend.close()
    assert not api.ask("GET", JOBS.path(namespace, "pair")).taken


@dataclass(frozen=True)
class FasterOnLaptops:
    """Forecasts by which laptops need a tenth of the time."""

    def forecast(self, job: ClusterJob, slots: Sequence[WorkerSlot], cluster: Cluster) -> Forecast:
        """Of a job, whatever it is."""
        fast = all(cluster.host(slot.host).machine == "laptop" for slot in slots)
        return Forecast(1.0 if fast else 10.0, "allreduce")


def test_forecasts_know_the_machines_of_the_site(there: HollowKubelets, api: Api, namespace: str, tmp_path: Path) -> None:
    fast = f"{namespace}-1"
    rounds = Rounds(tmp_path, namespace, ClusterJob("one", ONE_DEVICE), ClusterJob("two", ONE_DEVICE), machines={fast: "laptop"})
    rounds.config = SchedulerConfig(FirstIn(), PredictedPlacement(FasterOnLaptops()), preemption=NoPreemption())
    rounds.until(lambda _: bound(api, namespace, "one") == bound(api, namespace, "two") == [fast])
    rounds.backend.close()


@pytest.mark.long
def test_the_command_carries_a_list_out(there: HollowKubelets, api: Api, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "site.json").write_text(json.dumps({"name": "k", "hosts": [{"name": f"{namespace}-0", "cores": 8}]}))
    (tmp_path / "jobs.toml").write_text('[[jobs]]\nname = "pair"\nworkers = 2\n[jobs.train]\njob = "digits-mlp"\n')
    words = ["cluster", "run", "site.json", "jobs.toml", "--out", "runs", "--beat", "0.2", "--json", "--through", "kubernetes"]
    command = [sys.executable, "-m", "polyrhythm", *words, "--engine", "image=trainer:3", "--engine", f"namespace={namespace}"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        until(lambda: len(bound(api, namespace, "pair")) == 2, 120.0)
        assert bound(api, namespace, "pair") == [f"{namespace}-0"] * 2
        say(api, namespace, "pair", succeeded=2, conditions=[{"type": "Complete", "status": "True"}])
        printed, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert json.loads(printed)["jobs"][0]["state"] == "ended"
    assert f"pair runs on {namespace}-0 (2)" in said
