"""The backend of torchrun starts one on each host of a placement, and takes the workers of an attempt for one group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from recorded_agents import CONFIG, RecordedAgent

from polyrhythm.cluster import Cluster, ClusterDevice, ClusterHost, ClusterJob, ClusterState, WorkerDemand
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling import host_agents
from polyrhythm.tools.scheduling.backend import SchedulerRound, schedule_once
from polyrhythm.tools.scheduling.engines import EngineChoice, backend_through
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.news import AgentNews, HostBeat, StartWorker, StopWorker, WorkerEnded
from polyrhythm.tools.scheduling.torchrun.backend import TorchrunBackend
from polyrhythm.tools.scheduling.training_jobs import TrainingJob, TrainingOrder, load_training_jobs

SCRIPT = TrainingOrder(script="ddp.py", arguments=["-x"])


class Rounds:
    """Rounds of a scheduler over hosts with recorded agents; one second passes between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hosts: Sequence[ClusterHost], job: ClusterJob, out: Path) -> None:
        self.agents: dict[str, RecordedAgent] = {}
        monkeypatch.setattr(host_agents, "AgentLink", self._linked)
        cluster = Cluster("home", tuple(hosts))
        self.backend = TorchrunBackend(cluster, [TrainingJob(job, SCRIPT)], HostSettings(out, restarts=1), 0.0)
        self.state, self.now = ClusterState(cluster), 0.0

    def round(self, **news: AgentNews) -> SchedulerRound:
        """One round after a beat of each host that is there, and the news of some."""
        self.now += 1.0
        for name, agent in self.agents.items():
            agent.says += [HostBeat(), *([news[name]] if name in news else [])]
        done = schedule_once(self.backend, self.state, self.now, CONFIG)
        self.state = done.state
        return done

    def started(self, host: str) -> StartWorker:
        """The last order that started something on a host."""
        return [order for order in self.agents[host].orders if isinstance(order, StartWorker)][-1]

    def _linked(self, name: str, *_: object) -> RecordedAgent:
        self.agents[name] = RecordedAgent(name)
        return self.agents[name]


def test_each_host_gets_its_rank_its_workers_and_their_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hosts = [ClusterHost(name, cores=4, devices=(ClusterDevice(),) * count) for name, count in (("a", 1), ("b", 2))]
    rounds = Rounds(monkeypatch, hosts, ClusterJob("j", workers=3, demand=WorkerDemand(devices=1)), tmp_path)
    rounds.round()
    orders = {host: rounds.started(host) for host in ("a", "b")}
    assert sorted(order.environment["CUDA_VISIBLE_DEVICES"] for order in orders.values()) == ["0", "0,1"]
    first = next(order.command for order in orders.values() if "--node-rank=0" in order.command)
    second = next(order.command for order in orders.values() if "--node-rank=1" in order.command)
    assert {"--nproc-per-node=1", "--nproc-per-node=2"} == {word for word in (*first, *second) if word.startswith("--nproc")}
    assert [word for word in first if "endpoint" in word] == [word for word in second if "endpoint" in word]
    assert first[-2:] == ["ddp.py", "-x"]


def test_one_failure_ends_the_group_and_counts_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rounds = Rounds(monkeypatch, [ClusterHost("a", cores=1), ClusterHost("b", cores=1)], ClusterJob("j", workers=2), tmp_path)
    for attempt in range(1, 4):
        rounds.round()
        assert f"--rdzv-id=j-{attempt}" in rounds.started("a").command
        rounds.round(a=WorkerEnded(rounds.started("a").name, 1))
        assert rounds.agents["b"].ordered(StopWorker)[-1] == rounds.started("b").name
        rounds.round(b=WorkerEnded(rounds.started("b").name, -15))
    assert rounds.backend.runs["j"].over == "failed"
    assert len(rounds.backend.runs["j"].failures) == 3


def test_a_job_grows_when_the_workers_of_its_last_attempt_have_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    job = ClusterJob("j", workers=2, min_workers=1)
    rounds = Rounds(monkeypatch, [ClusterHost("a", cores=1), ClusterHost("b", cores=1)], job, tmp_path)
    rounds.agents["b"].was_heard = False
    rounds.round()  # b was never heard, so the job may not begin there
    assert not rounds.agents["a"].orders
    rounds.agents["b"].is_there = False
    rounds.round()
    assert "--nnodes=1" in rounds.started("a").command
    while rounds.agents["b"].is_there is False or len(rounds.state.running["j"].slots) < 2:
        rounds.round()
        assert rounds.now < 60
    assert rounds.agents["a"].ordered(StopWorker) == ["j/1/0"]
    rounds.round()
    assert len(rounds.agents["a"].ordered(StartWorker)) == 1
    rounds.round(a=WorkerEnded("j/1/0", -15))
    assert "--nnodes=2" in rounds.started("a").command
    assert "--rdzv-id=j-2" in rounds.started("b").command
    for host in ("a", "b"):
        rounds.round(**{host: WorkerEnded(rounds.started(host).name, 0)})
    assert rounds.backend.runs["j"].over == "ended"


def test_jobs_that_are_no_script_or_half_of_one_are_refused(tmp_path: Path) -> None:
    for train, said in (
        ('job = "a.py"\nscript = "b.py"', "needs either job"),
        ("seed = 1", "needs either job"),
        ('script = "b.py"\nseed = 1', "nothing beside its arguments"),
    ):
        (tmp_path / "jobs.toml").write_text(f'[[jobs]]\nname = "j"\n[jobs.train]\n{train}\n')
        with pytest.raises(CompositionError, match=said):
            load_training_jobs(tmp_path / "jobs.toml")
    jobs = [TrainingJob(ClusterJob("j", workers=2, min_workers=1), SCRIPT)]
    asked = EngineChoice(Cluster("c", (ClusterHost("a", cores=2),)), jobs, HostSettings(tmp_path), lambda name: name, 0.0)
    with pytest.raises(CompositionError, match="give --through torchrun"):
        backend_through("hosts", asked)
