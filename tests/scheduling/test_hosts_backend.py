"""The backend of hosts gives a place to nobody before it is free, sees which workers are there, and leaves healthy ones alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from recorded_agents import CONFIG, RecordedAgent

from polyrhythm.cluster import (
    Cluster,
    ClusterDevice,
    ClusterHost,
    ClusterJob,
    ClusterState,
    WorkerDemand,
    WorkerSlot,
)
from polyrhythm.tools.scheduling import host_agents
from polyrhythm.tools.scheduling.backend import SchedulerRound, schedule_once
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.hosts_backend import HostsBackend
from polyrhythm.tools.scheduling.job_run import CarriedJob
from polyrhythm.tools.scheduling.news import AgentNews, HostBeat, StartWorker, StopWorker, WorkerEnded
from polyrhythm.tools.scheduling.training_jobs import TrainingJob, TrainingOrder

DEVICE = WorkerDemand(devices=1, cores=0.0)


class Rounds:
    """Rounds of a scheduler over hosts with recorded agents; one second passes between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hosts: Sequence[ClusterHost], jobs: Sequence[ClusterJob], out: Path) -> None:
        self.agents: dict[str, RecordedAgent] = {}
        monkeypatch.setattr(host_agents, "AgentLink", self._linked)
        cluster = Cluster("home", tuple(hosts))
        self.jobs = [TrainingJob(job, TrainingOrder("train.py")) for job in jobs]
        self.backend = HostsBackend(cluster, self.jobs, HostSettings(out), 0.0)
        self.state, self.now = ClusterState(cluster), 0.0

    def round(self, *news: AgentNews) -> SchedulerRound:
        """One round after a beat of each host, and `news` of the first."""
        self.now += 1.0
        for agent in self.agents.values():
            agent.says.append(HostBeat())
        next(iter(self.agents.values())).says += news
        done = schedule_once(self.backend, self.state, self.now, CONFIG)
        self.state = done.state
        return done

    def submit(self, job: ClusterJob) -> None:
        """One more job comes."""
        self.backend.runs[job.name] = CarriedJob(TrainingJob(job, TrainingOrder("train.py")))

    def workers(self, job: str) -> dict[str, WorkerSlot]:
        """The workers of a job that are there."""
        return self.backend.runs[job].workers

    def _linked(self, name: str, *_: object) -> RecordedAgent:
        self.agents[name] = RecordedAgent(name)
        return self.agents[name]


def test_a_device_is_given_to_another_job_when_its_worker_has_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = ClusterHost("h", cores=4, devices=(ClusterDevice(),))
    rounds = Rounds(monkeypatch, [host], [ClusterJob("low", demand=DEVICE)], tmp_path)
    rounds.round()
    rounds.submit(ClusterJob("high", demand=DEVICE, priority=5))
    agent = rounds.agents["h"]
    for _ in range(3):
        rounds.round()
        assert agent.ordered(StopWorker) == ["low/1/0"]
        assert agent.ordered(StartWorker) == ["low/1/0"]
    rounds.round(WorkerEnded("low/1/0", -15))
    assert agent.ordered(StartWorker) == ["low/1/0", "high/1/0"]


def test_a_job_that_is_over_gives_its_device_away_when_its_last_worker_has_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = ClusterHost("h", cores=4, devices=(ClusterDevice(), ClusterDevice()))
    rounds = Rounds(monkeypatch, [host], [ClusterJob("crew", workers=2, min_workers=1, demand=DEVICE)], tmp_path)
    rounds.round()
    rounds.submit(ClusterJob("next", workers=2, demand=DEVICE))
    rounds.round(WorkerEnded("crew/1/0", 0))
    rounds.now += 1.0  # the other has come too late to join it, and is stopped; then it ends
    rounds.round()
    assert rounds.agents["h"].ordered(StopWorker) == ["crew/1/1"]
    rounds.round()
    assert rounds.agents["h"].ordered(StartWorker) == ["crew/1/0", "crew/1/1"]
    rounds.round(WorkerEnded("crew/1/1", -15))
    assert rounds.agents["h"].ordered(StartWorker)[2:] == ["next/1/0", "next/1/1"]


@pytest.mark.parametrize("demand", [WorkerDemand(), WorkerDemand(devices=1, milli=250)])
def test_workers_that_are_gone_are_noticed_where_all_have_equal_places(
    demand: WorkerDemand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = ClusterHost("h", cores=4, devices=(ClusterDevice(),))
    rounds = Rounds(monkeypatch, [host], [ClusterJob("crew", workers=4, min_workers=1, demand=demand)], tmp_path)
    rounds.round()
    gone = [WorkerEnded(f"crew/1/{number}", -9) for number in range(3)]
    for agent in rounds.agents.values():
        agent.says += gone
    seen = rounds.backend.observed(rounds.state, 2.0)
    assert len(seen.running["crew"].slots) == len(rounds.workers("crew")) == 1


def test_a_worker_on_a_broken_gpu_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = ClusterHost("h", cores=4, devices=(ClusterDevice(), ClusterDevice()))
    rounds = Rounds(monkeypatch, [host], [ClusterJob("crew", workers=2, min_workers=1, demand=DEVICE)], tmp_path)
    rounds.round()
    rounds.round(HostBeat([1]))
    agent = rounds.agents["h"]
    assert agent.ordered(StopWorker) == ["crew/1/1"]
    assert list(rounds.workers("crew").values()) == [WorkerSlot("h", (0,))]
    for _ in range(5):  # the GPU is well again, and the worker still there
        rounds.round()
    assert len(agent.ordered(StartWorker)) == 2
    rounds.round(WorkerEnded("crew/1/1", -9))
    assert agent.ordered(StartWorker)[2:] == ["crew/1/2"]


def test_gpus_have_the_numbers_of_their_health(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = ClusterHost("h", cores=4, devices=(ClusterDevice(), ClusterDevice()))
    rounds = Rounds(monkeypatch, [host], [ClusterJob("pair", workers=2, demand=DEVICE)], tmp_path)
    rounds.round()
    given = [order.environment for order in rounds.agents["h"].orders if isinstance(order, StartWorker)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in given] == ["0", "1"]
    assert {each["CUDA_DEVICE_ORDER"] for each in given} == {"PCI_BUS_ID"}


def test_a_growth_that_is_not_taken_leaves_the_crew_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hosts = [ClusterHost("a", cores=2), ClusterHost("b", cores=2)]
    rounds = Rounds(monkeypatch, hosts, [ClusterJob("crew", workers=4, min_workers=1)], tmp_path)
    rounds.round()
    first, second = rounds.agents.values()
    gone = next(name for name, slot in rounds.workers("crew").items() if slot.host == "b")
    second.obedient = False
    second.says.append(WorkerEnded(gone, -9))
    kept = set(rounds.workers("crew")) - {gone}
    rounds.round()
    rounds.round()
    assert set(rounds.workers("crew")) == kept
    assert not first.ordered(StopWorker)
    assert len(rounds.state.running["crew"].slots) == 3
    second.obedient = True
    rounds.round()
    assert len(rounds.workers("crew")) == 4


def test_a_job_begins_anew_when_no_worker_of_a_lost_host_can_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hosts = [ClusterHost(name, cores=1) for name in ("a", "b", "c")]
    rounds = Rounds(monkeypatch, hosts, [ClusterJob("pair", workers=2)], tmp_path)
    rounds.round()
    lost = rounds.agents["a"]
    lost.lease, lost.is_there = 5.0, False
    rounds.round()
    assert rounds.agents["b"].ordered(StopWorker) == ["pair/1/1"]
    rounds.agents["b"].says.append(WorkerEnded("pair/1/1", -15))
    for _ in range(4):
        rounds.round()
        assert not rounds.agents["c"].orders
    rounds.round()
    assert [rounds.agents[name].ordered(StartWorker)[-1:] for name in ("b", "c")] == [["pair/2/2"], ["pair/2/3"]]


def test_a_host_is_tried_again_also_when_that_was_in_vain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rounds = Rounds(monkeypatch, [ClusterHost("a", cores=1)], [ClusterJob("j")], tmp_path)
    rounds.round()
    for _ in range(2):
        last = rounds.agents["a"]
        last.is_there = False
        while rounds.agents["a"] is last:
            rounds.round()
            assert rounds.now < 60.0
    for _ in range(5):
        rounds.round()
    assert rounds.agents["a"].ordered(StartWorker) == ["j/2/1"]


def test_no_worker_is_ordered_from_an_agent_that_was_never_heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rounds = Rounds(monkeypatch, [ClusterHost("a", cores=1)], [ClusterJob("j")], tmp_path)
    rounds.agents["a"].was_heard = False
    rounds.round()
    assert not rounds.agents["a"].orders
