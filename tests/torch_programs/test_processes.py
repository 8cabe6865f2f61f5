"""Laws of the two carriers of ranks: a process for each gives what threads give, to the byte, and shares nothing."""

from __future__ import annotations

import atexit
import fcntl
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import torch.distributed as dist

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.kernel.events import MemoryPeak
from polyrhythm.core.simulator import ClosedForm
from polyrhythm.core.simulator import threads as carriers
from polyrhythm.errors import CompositionError, DeadlockError, PolyrhythmError, WorkerFailed
from polyrhythm.hardware.faults import Crash

from .programs import PROGRAMS, data_parallel, pipeline_in_turns


@dataclass(frozen=True)
class Printed:
    """A program that prints what it returns."""

    main: Callable[[], Any]

    def __call__(self) -> None:
        print(os.environ["RANK"], repr(self.main()))


def carried(main: Callable[[], Any], ranks: int, carrier: str, **how: Any) -> tuple[pr.Run, bytes]:
    """The run, and all its events as bytes."""
    run = pr.simulate(main, ranks=ranks, on=pr.Simulator(carrier=carrier, **how))
    return run, msgspec.json.encode(run.outcome.events)


def same_in_both(main: Callable[[], Any], ranks: int, capsys: pytest.CaptureFixture[str], **how: Any) -> str:
    """What the ranks print, the same with both carriers, in the same order; events, times and bytes too."""
    found = []
    for carrier in ("threads", "processes"):
        run, events = carried(Printed(main), ranks, carrier, **how)
        found.append((capsys.readouterr().out, events, run.summary.virtual_seconds, run.summary.bytes_sent, run.summary.messages_sent))
    assert found[0] == found[1]
    return str(found[0][0])


FEW = [(data_parallel, 2, "slow"), (pipeline_in_turns, 2, "lan")]
ALL = [(program.main, ranks, network) for program in PROGRAMS for ranks in program.ranks for network in ("lan", "slow")]


@pytest.mark.parametrize(
    ("main", "ranks", "network"),
    [pytest.param(*case, marks=() if case in FEW else pytest.mark.long) for case in ALL],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_both_carriers_give_the_same_to_the_byte(
    main: Callable[[], float], ranks: int, network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert same_in_both(main, ranks, capsys, network=network).count("\n") == ranks


def failed(main: Callable[[], Any], ranks: int, carrier: str, **how: Any) -> tuple[type[BaseException], str]:
    """The error with which the run ends."""
    with pytest.raises(PolyrhythmError) as caught:
        carried(main, ranks, carrier, **how)
    return type(caught.value), str(caught.value)


def joined() -> int:
    dist.init_process_group("gloo")
    return dist.get_rank()


def raises() -> None:
    if joined() == 1:
        raise ValueError("of rank 1")
    dist.barrier()


def exits() -> None:
    try:
        if joined() == 1:
            sys.exit(7)
        dist.barrier()
    finally:
        print("ended", os.environ["RANK"])


def disagrees() -> None:
    (dist.barrier if joined() else lambda: dist.all_reduce(torch.ones(2)))()


def deadlocks() -> None:
    dist.recv(torch.ones(2), 1 - joined())


def waits() -> None:
    joined()
    for _ in range(20):
        time.sleep(0.1)
        dist.barrier()


FAILURES: dict[str, tuple[Callable[[], None], dict[str, Any]]] = {
    "raises": (raises, {}),
    "exits": (exits, {}),
    "disagrees": (disagrees, {}),
    "deadlocks": (deadlocks, {}),
    "crashes": (waits, {"faults": (Crash("worker/1", at=0.55),)}),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_run_fails_alike_with_both_carriers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main, how = FAILURES[name]
    threads, printed = failed(main, 2, "threads", **how), capsys.readouterr().out
    assert failed(main, 2, "processes", **how) == threads
    assert capsys.readouterr().out == printed


def late() -> str:
    dist.init_process_group("gloo", timeout=timedelta(seconds=5))
    if dist.get_rank():
        time.sleep(10)
    try:
        dist.all_reduce(torch.ones(2))
    except dist.DistBackendError as problem:
        return f"{time.monotonic()} {problem}"
    return "in time"


def meets() -> list[Any]:
    rank = joined()
    store = dist.TCPStore("localhost", 1234, 2, rank == 0, timeout=timedelta(seconds=3))
    store.set("key", f"of {rank}")
    try:
        store.get("never")
    except dist.DistStoreError as problem:
        return [time.monotonic(), str(problem), store.add("number", 1), store.get("key"), store.num_keys(), store.check(["key", "never"])]
    return []


def draws() -> list[float]:
    joined()
    dist.barrier()
    return [torch.rand(1).item(), random.random(), float(np.random.random())]


def leaks() -> list[Any]:
    """State of the process that each rank sets for itself."""
    rank = int(os.environ["RANK"])
    random.seed(rank)
    torch.set_default_dtype([torch.float32, torch.float64][rank])
    os.chdir(["/", "/tmp"][rank])
    os.environ["OWN"] = str(rank)
    socket.setdefaulttimeout(1.0 + rank)
    atexit.register(print, "exit of", rank)
    joined()
    dist.barrier()
    return [random.random(), torch.ones(1).dtype, os.getcwd(), os.environ["OWN"], socket.getdefaulttimeout(), torch.get_num_threads()]


def exchanges() -> list[float]:
    """An exchange of ours, which compares facts, draws and sends updates."""
    joined()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 2)
    worker = pr.join(systems.find("qsgd"))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    worker.count(1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((4, 8), 1.0 + step + worker.rank)).square().mean().backward()
        optimizer.step()
    worker.leave()
    return [float(each.detach().sum()) for each in model.parameters()]


@pytest.mark.parametrize("main", [late, meets, draws, leaks, exchanges], ids=lambda main: main.__name__)
def test_what_a_rank_finds_is_the_same_in_both(main: Callable[[], Any], capsys: pytest.CaptureFixture[str]) -> None:
    same_in_both(main, 2, capsys, network="slow")


def test_closed_forms_and_memory_are_the_same_in_both(capsys: pytest.CaptureFixture[str]) -> None:
    same_in_both(data_parallel, 2, capsys, collectives=ClosedForm())
    found = [pr.simulate(data_parallel, ranks=2, memory=True, on=pr.Simulator(carrier=carrier)) for carrier in ("threads", "processes")]
    peaks = [[event for event in run.outcome.events if isinstance(event, MemoryPeak)] for run in found]
    assert len(peaks[0]) == 2
    assert peaks[0] == peaks[1]


def test_segments_that_one_carrier_has_measured_are_those_of_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "here.json"
    pr.simulate(data_parallel, ranks=2, measure=file, on=pr.Simulator(carrier="processes"))
    same_in_both(data_parallel, 2, capsys, devices=file)
    run = pr.simulate(data_parallel, ranks=2, on=pr.Simulator(devices=file))
    assert "not charged" not in run.outcome.settings


def apart() -> str:
    joined()
    torch.of_a_rank = getattr(torch, "of_a_rank", 0) + 1  # type: ignore[attr-defined]
    signal.signal(signal.SIGUSR1, lambda number, frame: print("signalled"))
    os.kill(os.getpid(), signal.SIGUSR1)
    dist.barrier()
    return f"{torch.of_a_rank} {os.getpid()} {threading.current_thread() is threading.main_thread()}"  # type: ignore[attr-defined]


def test_processes_share_neither_packages_nor_signals_nor_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    carried(Printed(apart), 2, "processes")
    said = capsys.readouterr().out.split("\n")
    assert said.count("signalled") == 2
    found = [each.split() for each in said if "True" in each]
    assert [each[1:2] + each[3:] for each in found] == [["'1", "True'"]] * 2
    assert len({os.getpid(), *(int(each[2]) for each in found)}) == 3


def dies() -> None:
    if joined() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def leaves_at_once() -> None:
    joined()
    try:
        os._exit(3)
    finally:
        print("never printed")


@dataclass(frozen=True)
class Locks:
    """Each rank holds the lock of a file in a barrier, where the others never come."""

    file: Path

    def __call__(self) -> None:
        joined()
        with open(self.file, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            dist.barrier()


def test_a_wait_for_what_another_rank_would_do_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carriers, "STANDSTILL_SECONDS", 0.2)
    kind, text = failed(Locks(tmp_path / "lock"), 2, "processes")
    assert kind is DeadlockError
    assert re.search(r"worker/\d has waited for 0.4 s of real time at test_processes.py:\d+: fcntl.flock", text)


def test_a_rank_that_dies_is_named_with_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(dies, 2, "processes") == (WorkerFailed, "worker/1 failed: killed by signal 9 (SIGKILL)")
    kind, text = failed(leaves_at_once, 2, "processes")
    assert kind is WorkerFailed
    assert "sys.exit(3)" in text
    assert "never" not in capsys.readouterr().out


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
def test_no_process_outlives_the_one_that_has_started_it(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import os, threading\nprint(os.getppid(), os.getpid(), flush=True)\nthreading.Event().wait(60)\n")
    command = [sys.executable, "-m", "polyrhythm", "simulate", "--workers", "2", "--carrier", "processes", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        template, rank = map(int, run.stdout.readline().split())
        assert alive(template)
        assert alive(rank)
        run.kill()
    until = time.monotonic() + 10
    while (alive(template) or alive(rank)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(template)
    assert not alive(rank)


def test_no_rank_outlives_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (apart, dies, deadlocks):
        with suppress(PolyrhythmError):
            carried(Printed(main), 2, "processes")
    ended = [int(each.split()[2]) for each in capsys.readouterr().out.split("\n") if "True" in each]
    assert len(ended) == 2
    assert not any(map(alive, ended))


def test_what_processes_cannot_carry_is_refused() -> None:
    with pytest.raises(CompositionError, match="give --workers N"):
        pr.simulate(deadlocks, on=pr.Simulator(carrier="processes"))
    with pytest.raises(CompositionError, match="cannot be pickled"):
        pr.simulate(partial(print, threading.Lock()), ranks=2, on=pr.Simulator(carrier="processes"))
    with pytest.raises(CompositionError, match="'threads' or 'processes'"):
        pr.Simulator(carrier="greenlets")
    with pytest.raises(CompositionError, match="leave carrier= out"):
        pr.run(lambda worker: None, workers=2, on=pr.Simulator(carrier="processes"))
