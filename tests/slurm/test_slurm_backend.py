"""Placed jobs are batch jobs of SLURM on the very nodes of their placements, and go on elsewhere where a node is lost."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nodes_of_slurm import NODES, FakeSlurm

from polyrhythm.cluster import Cluster, ClusterHost, ClusterJob, ClusterState, FirstIn, SchedulerConfig, WorkerDemand, WorkerSlot
from polyrhythm.errors import CompositionError
from polyrhythm.launchers import Slurm
from polyrhythm.tools.scheduling.backend import SchedulerRound, schedule_once
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.slurm.backend import SlurmBackend
from polyrhythm.tools.scheduling.slurm.commands import SlurmCommands
from polyrhythm.tools.scheduling.slurm.script import PlacedScript
from polyrhythm.tools.scheduling.status import job_status
from polyrhythm.tools.scheduling.training_jobs import TrainingJob, TrainingOrder

SITE = Cluster("slurm", tuple(ClusterHost(name, cores=2) for name in NODES))
WORKER = """#!/bin/bash
[ -e {folder}/fail ] && { echo "it is told to fail"; exit 7; }
touch {folder}/$POLYRHYTHM_HOST_ID.${RANK:-member}.$MASTER_ADDR
while [ ! -e {folder}/go ]; do sleep 0.05; done
"""


class Carried:
    """A backend whose workers wait for the file `go`, in rounds."""

    def __init__(self, folder: Path, *jobs: ClusterJob, restarts: int = 3) -> None:
        self.folder = folder
        python = folder / "worker"
        python.write_text(WORKER.replace("{folder}", str(folder)))
        python.chmod(0o755)
        settings = HostSettings(folder / "out", python=str(python), interval=0.01)
        given = [TrainingJob(job, TrainingOrder("train.py")) for job in jobs]
        self.backend = SlurmBackend(SITE, given, settings, Slurm(options=("--partition=gpu",), restarts=restarts))
        self.state = ClusterState(SITE)
        assert self.backend.ready()

    def until(self, true: Callable[[SchedulerRound], bool], seconds: float = 20.0) -> None:
        """Rounds until it is true."""
        deadline = time.monotonic() + seconds
        while True:
            done = schedule_once(self.backend, self.state, time.monotonic(), SchedulerConfig(FirstIn()))
            self.state = done.state
            if true(done):
                return
            assert time.monotonic() < deadline, (self.state.running, self.backend.runs)
            time.sleep(0.02)

    def hosts(self, job: str) -> list[str]:
        """The host of each worker of a job."""
        return sorted(slot.host for slot in self.backend.runs[job].workers.values())

    def began(self, count: int) -> bool:
        """True when so many workers have begun."""
        return len(list(self.folder.glob("127.*"))) >= count


def test_a_gang_is_one_batch_job_on_the_nodes_of_its_placement(slurm: FakeSlurm, tmp_path: Path) -> None:
    carried = Carried(tmp_path, ClusterJob("four", workers=4), ClusterJob("late", workers=3))
    carried.until(lambda done: carried.began(4) and "late" in done.pending)
    (script,) = slurm.scripts()
    assert f"#SBATCH --nodelist={NODES[0]},{NODES[1]}\n" in script
    assert "#SBATCH --ntasks-per-node=2\n" in script
    assert "#SBATCH --partition=gpu\n" in script
    assert carried.backend.runs["four"].secret not in script
    assert sorted(each.name for each in tmp_path.glob("127.*")) == [f"{NODES[k // 2]}.{k}.{NODES[0]}" for k in range(4)]
    (tmp_path / "go").touch()
    carried.until(lambda _: carried.backend.over)
    assert [run.over for run in carried.backend.runs.values()] == ["ended", "ended"]


def test_a_gang_on_unequal_hosts_is_one_job_of_several_parts(slurm: FakeSlurm, tmp_path: Path) -> None:
    carried = Carried(tmp_path, ClusterJob("three", workers=3))
    carried.until(lambda _: carried.began(3))
    (script,) = slurm.scripts()
    assert script.count("#SBATCH hetjob\n") == 1
    assert sorted(each.name.split(".")[4] for each in tmp_path.glob("127.*")) == ["0", "1", "2"]
    assert len({each.name.split(".", 5)[5] for each in tmp_path.glob("127.*")}) == 1  # they meet at one address
    (tmp_path / "go").touch()
    carried.until(lambda _: carried.backend.over)


def test_a_gang_whose_node_is_lost_is_cancelled_and_begins_elsewhere(slurm: FakeSlurm, tmp_path: Path) -> None:
    carried = Carried(tmp_path, ClusterJob("two", WorkerDemand(cores=2), workers=2))
    carried.until(lambda _: carried.began(2))
    slurm.say({NODES[0]: "down*"})
    carried.until(lambda _: carried.hosts("two") == [NODES[1], NODES[2]])
    assert (slurm.folder / "jobs" / "1" / "said").read_text() == "CANCELLED"
    assert carried.backend.health == {NODES[0]: "down*", NODES[1]: "healthy", NODES[2]: "healthy"}
    assert not carried.backend.runs["two"].failures


def test_a_crew_shrinks_and_grows_where_it_is(slurm: FakeSlurm, tmp_path: Path) -> None:
    carried = Carried(tmp_path, ClusterJob("crew", WorkerDemand(cores=2), workers=3, min_workers=1))
    carried.until(lambda _: carried.began(3))
    slurm.say({NODES[1]: "down"})
    carried.until(lambda _: carried.hosts("crew") == [NODES[0], NODES[2]])
    slurm.say({NODES[1]: "idle"})
    carried.until(lambda _: carried.hosts("crew") == sorted(NODES))
    assert carried.backend.runs["crew"].attempt == 1
    assert [f"--nodelist={name}\n" in script for name, script in zip((*NODES, NODES[1]), slurm.scripts(), strict=True)] == [True] * 4
    (tmp_path / "go").touch()
    carried.until(lambda _: carried.backend.over)


def test_a_node_that_is_drained_keeps_its_jobs_and_gets_no_new_ones(slurm: FakeSlurm, tmp_path: Path) -> None:
    carried = Carried(tmp_path, ClusterJob("first", WorkerDemand(cores=2)), ClusterJob("second", WorkerDemand(cores=2), workers=3))
    slurm.say({NODES[2]: "drained"})
    carried.until(lambda done: carried.hosts("first") == [NODES[0]] and "second" in done.pending)
    slurm.say({NODES[0]: "draining", NODES[2]: "idle"})
    carried.until(lambda _: carried.backend.health[NODES[0]] == "draining")
    assert carried.hosts("first") == [NODES[0]]
    carried.backend.close()
    assert (slurm.folder / "jobs" / "1" / "said").read_text() == "CANCELLED"


def test_a_job_that_fails_is_tried_again_some_times_and_its_words_are_told(slurm: FakeSlurm, tmp_path: Path) -> None:
    (tmp_path / "fail").touch()
    carried = Carried(tmp_path, ClusterJob("wrong", workers=2), restarts=1)
    carried.until(lambda _: carried.backend.over)
    run = carried.backend.runs["wrong"]
    assert (run.over, run.attempt) == ("failed", 2)
    assert run.reason.endswith("ended with exit code 7: it is told to fail")


def test_what_sbatch_refuses_is_told(slurm: FakeSlurm, tmp_path: Path) -> None:
    (slurm.folder / "refusal").write_text("sbatch: error: Invalid account or account/partition combination specified")
    carried = Carried(tmp_path, ClusterJob("poor"), restarts=0)
    carried.until(lambda _: carried.backend.over)
    assert "Invalid account" in carried.backend.runs["poor"].reason
    assert carried.backend.runs["poor"].over == "failed"


def test_hosts_that_slurm_does_not_know_and_commands_that_are_not_here_are_refused(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = SlurmBackend(Cluster("s", (ClusterHost("node7", cores=1),)), [], HostSettings(tmp_path), Slurm())
    with pytest.raises(CompositionError, match="SLURM has no node 'node7'"):
        backend.ready()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CompositionError, match="no command 'sbatch' here"):
        SlurmCommands()


def test_a_script_asks_for_what_each_worker_needs_and_is_bash() -> None:
    demand = WorkerDemand(devices=2, cores=7.5, memory=3 * 2**30)
    slots = [WorkerSlot("a", (0, 1)), WorkerSlot("a", (2, 3)), WorkerSlot("b", (0, 1))]
    script = PlacedScript("it's", slots, demand, Path("/shared/my runs/log")).of_gang(["python", "-m", "polyrhythm", "join", "a b.py"])
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    for word in ("--gpus-per-task=2", "--cpus-per-task=8", "--mem=3072M", "--mem=6144M", "--nodelist=b", "--ntasks-per-node=2"):
        assert f"#SBATCH {word}\n" in script
    assert "RANK=$((1 + SLURM_PROCID))" in script
    for step in ("--het-group=0 --nodes=1 --ntasks=1 --ntasks-per-node=1", "--het-group=1 --nodes=1 --ntasks=2 --ntasks-per-node=2"):
        assert f"srun {step} --cpus-per-task=8 --gpus-per-task=2 " in script


def test_a_job_that_slurm_keeps_waiting_is_pending_for_its_reason(slurm: FakeSlurm, tmp_path: Path) -> None:
    (slurm.folder / "held").touch()
    carried = Carried(tmp_path, ClusterJob("pair", workers=2))
    run = carried.backend.runs["pair"]
    carried.until(lambda _: bool(run.held))
    found = job_status(run, carried.state, {}, 1.0)
    assert (found.state, found.reason) == ("pending", "SLURM keeps it waiting (Priority)")
    (slurm.folder / "held").unlink()
    carried.until(lambda _: carried.began(2) and not run.held)
    assert job_status(run, carried.state, {}, 1.0).state == "running"
