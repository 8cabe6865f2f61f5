"""The records of runs that were interrupted, killed or cut off from their disk; and nothing but our own errors leaves `run`."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from ports import reserved_port
from safetensors.torch import load_file
from toy import network

from polyrhythm.core.kernel.events import AnyEvent, Ended, Recorder, Stepped
from polyrhythm.core.kernel.job import Ending, Job
from polyrhythm.core.kernel.location import Location, unplaced
from polyrhythm.core.processes import Processes
from polyrhythm.core.records.load import load
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import attempt, run
from polyrhythm.errors import CompositionError, RecordWarning, RunError, WorkloadError
from polyrhythm.systems import resolve

from .scenes import go, loop, sgd, trains


def at_step(step: int, deed: Callable[[], object]) -> Any:
    """A training function in which worker 0 does `deed` after `step` steps."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        usual = optimizer.step

        def stepped() -> None:
            usual()
            if worker.rank == 0 and worker.clock == step:
                deed()

        optimizer.step = stepped
        loop(worker, model, optimizer, epochs=2)

    return train


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interruption_leaves_as_such_and_the_record_reports_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        go(at_step(5, interrupt), directory=tmp_path)
    kept = load(tmp_path)
    assert kept.state == "interrupted"
    assert (kept.summary.error or "").startswith(f"The run was interrupted: {len(kept.events)} events until ")
    assert (kept.summary.steps, kept.summary.samples) == (5, 72)
    assert kept.remarks == []


def test_an_interruption_of_real_processes_is_in_their_record(tmp_path: Path) -> None:
    def watch(event: AnyEvent) -> None:
        if isinstance(event, Stepped):
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        attempt(trains(sgd, epochs=2), workers=2, strategy=resolve("allreduce"), on=Processes(), directory=tmp_path, watch=watch)
    kept = load(tmp_path)
    assert (kept.state, kept.summary.steps > 0, (kept.summary.seconds or 0) > 0) == ("interrupted", True, True)


KILLED = """
import os, signal, sys
import torch
import polyrhythm as pr

launcher = os.getpid()

def train(worker):
    model = torch.nn.Linear(2, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(10**6):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        if step == 2000 and worker.rank == 0:
            os.kill(launcher, signal.SIGKILL)

pr.run(train, on={on}, directory=sys.argv[1])
"""


def script(text: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """A Python process of its own."""
    words = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})


@pytest.mark.parametrize("on", [pytest.param("pr.Simulator(network=pr.Instant())", marks=pytest.mark.long), "pr.Processes()"])
def test_a_run_that_was_killed_has_a_record_of_what_happened_until_then(tmp_path: Path, on: str) -> None:
    done = script(KILLED.replace("{on}", on), tmp_path)
    done.communicate(timeout=100)
    assert done.returncode == -signal.SIGKILL
    kept = load(tmp_path)
    assert kept.state == "running"
    assert (kept.summary.error or "").startswith(f"The run did not end: {len(kept.events):,} events until ")
    assert kept.summary.steps > 50
    assert "strategy" in kept.settings


def test_a_disk_that_fills_up_costs_the_record_and_not_the_run(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))

    try:
        with pytest.warns(RecordWarning) as warned:
            result = go(at_step(3, fill), directory=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (result.summary.steps, len(result.weights), result.summary.error) == (12, 4, None)
    assert [str(each.message) for each in warned] == result.outcome.remarks
    assert all("is incomplete" in remark and "File too large" in remark for remark in result.outcome.remarks)
    kept = load(tmp_path)
    assert (kept.state, kept.summary) == ("ended", result.summary)
    assert kept.events == result.outcome.events[: len(kept.events)]


def test_a_directory_that_vanishes_during_the_run_is_there_at_its_end(tmp_path: Path) -> None:
    result = go(at_step(3, lambda: shutil.rmtree(tmp_path / "run")), directory=tmp_path / "run")
    assert load(tmp_path / "run").summary == result.summary


def test_a_directory_that_cannot_be_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", "/proc/nothing", "a\0b", 5):
        with pytest.raises(CompositionError):
            go(at_step(1, lambda: pytest.fail("it ran")), directory=place)


class Broken:
    """A runtime on a machine that has run out of something."""

    kind, seed, network_name = "processes", 0, None

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def locations(self, workers: int) -> tuple[Location, ...]:
        """One host each."""
        return unplaced(workers)

    def execute(self, job: Job, record: Recorder) -> Ending:
        """Raise."""
        raise self.problem


@pytest.mark.parametrize(
    "problem", [OSError(24, "Too many open files"), MemoryError("no memory"), RuntimeError("can't start new thread")], ids=repr
)
def test_what_the_system_refuses_is_an_error_of_ours_and_in_the_record(tmp_path: Path, problem: Exception) -> None:
    with pytest.raises(RunError, match=r"The run failed: .*(files|memory|thread)") as caught:
        run(trains(sgd), on=Broken(problem), directory=tmp_path)
    assert caught.value.__cause__ is problem
    assert (load(tmp_path).state, load(tmp_path).summary.error) == ("failed", str(caught.value))


@pytest.mark.parametrize("place", ["file/page.html", "a\0b", "x" * 300, "", 5])
def test_a_page_a_trace_and_a_directory_that_cannot_be_written_are_reported(tmp_path: Path, place: Any) -> None:
    (tmp_path / "file").touch()
    result = go(trains(sgd))
    place = str(tmp_path / place) if isinstance(place, str) else place
    for write in (result.report, result.trace):
        with pytest.raises(CompositionError):
            write(place)
    if place != str(tmp_path):
        with pytest.raises(CompositionError):
            result.save(place)


@pytest.mark.parametrize("seed", ["x", 1.5, True, 2**70], ids=repr)
def test_a_seed_that_is_no_whole_number_of_64_bits_is_refused(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(CompositionError, match=r"seed=.* (is not a whole number|has more than 64 bits)"):
        run(trains(sgd), on=Simulator(network=Instant()), seed=seed, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_simulator_without_a_seed_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"seed=None\) is given None where a whole number belongs"):
        Simulator(network=Instant(), seed=None)  # type: ignore[arg-type]


def test_names_that_are_no_text_cost_no_run(tmp_path: Path) -> None:
    def train(worker: Any) -> None:
        model = network()
        model.register_buffer("caf\udce9", torch.zeros(2))
        model, optimizer = worker.attach(model, sgd(model))
        loop(worker, model, optimizer)
        worker.report(**{"\udcff": 1.0})

    result = go(train, Strategy(name="caf\udce9"), directory=tmp_path)
    assert result.final["\\udcff"] == 1.0
    assert load(tmp_path).summary.final == result.final
    assert load(tmp_path).summary.system == "caf\\udce9"
    assert "caf\\udce9" in load_file(tmp_path / "weights.safetensors")


def test_what_cannot_be_shown_is_refused_before_it_runs(tmp_path: Path) -> None:
    class Shy:
        def __call__(self, worker: Any) -> None: ...

        def __repr__(self) -> str:
            raise ValueError("not here")

    with pytest.raises(WorkloadError, match=r"Shy cannot be shown .* ValueError\('not here'\)"):
        go(Shy(), directory=tmp_path)


JOINED = """
import os, signal, sys
import torch
import polyrhythm as pr

worker = pr.join("allreduce", directory=sys.argv[1])
model = torch.nn.Linear(2, 1)
model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
for step in range(40):
    worker.count(3 + worker.rank)
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    if step == 20 and worker.rank == 1:
        {deed}
"""


def joined(deed: str, directory: Path) -> list[int]:
    """Two processes that join, the second of which does `deed` after 20 steps; their exit codes."""
    with reserved_port() as port:
        store = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [script(JOINED.replace("{deed}", deed), directory, RANK=str(rank), LOCAL_RANK=str(rank), **store) for rank in range(2)]
        for each in ranks:
            each.communicate(timeout=100)
    return [each.returncode for each in ranks]


def test_joined_runs_that_end_well_have_whole_records(tmp_path: Path) -> None:
    assert joined("pass", tmp_path) == [0, 0]
    for rank in range(2):
        kept = load(tmp_path / f"worker-{rank}")
        assert (kept.state, kept.summary.steps, kept.summary.error, kept.remarks) == ("ended", 40, None, [])
    both = [load(tmp_path / f"worker-{rank}") for rank in range(2)]
    sent = [event for kept in both for event in kept.events if isinstance(event, Ended)]
    seen = [max(event.samples for event in kept.events if isinstance(event, Stepped)) for kept in both]
    for kept in both:
        assert kept.summary.samples == sum(seen) == 40 * (3 + 4)
        assert kept.summary.bytes_sent == sum(event.bytes_sent for event in sent) > sent[0].bytes_sent
        assert kept.summary.messages_sent == sum(event.messages_sent for event in sent)


@pytest.mark.parametrize(
    ("deed", "why"),
    [
        ("raise KeyError('no such column')", "KeyError: 'no such column'"),
        pytest.param("sys.exit(3)", "it called sys.exit(3)", marks=pytest.mark.long),
    ],
)
def test_joined_runs_that_fail_keep_what_happened_and_why(tmp_path: Path, deed: str, why: str) -> None:
    codes = joined(deed, tmp_path)
    assert codes[1] != 0
    failed = load(tmp_path / "worker-1")
    assert (failed.state, failed.summary.steps) == ("failed", 21)
    assert failed.summary.error == f"worker/1 failed: {why}"
    assert load(tmp_path / "worker-0").state == "failed"
    assert "worker/1" in (load(tmp_path / "worker-0").summary.error or "")


@pytest.mark.long
def test_joined_runs_that_are_killed_have_streamed_their_events(tmp_path: Path) -> None:
    codes = joined("os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert codes[1] == -signal.SIGKILL
    killed = load(tmp_path / "worker-1")
    assert (killed.state, killed.summary.steps) == ("failed", 21)
    assert (killed.summary.error or "").startswith("worker/1 failed: its process was killed, or its host was lost, as worker/0 found: ")
    assert load(tmp_path / "worker-0").state == "failed"
