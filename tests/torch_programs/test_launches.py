"""Laws of programs that start their own ranks, as torch's tutorials do: these are the ranks of the run."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import polyrhythm as pr
from polyrhythm.errors import CompositionError, WorkerFailed, WorkloadError

PROGRAM = """
import os, sys, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
import counted

class Thing:
    def __init__(self, rank):
        self.rank = rank

def work(rank, size, method, queue):
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=method)
    total = torch.full((1000,), float(rank))
    dist.all_reduce(total)
    things = [None] * size
    dist.all_gather_object(things, Thing(rank))
    queue.put((rank, float(total[0]), [thing.rank for thing in things], counted.again()))
    dist.destroy_process_group()

if __name__ == "__main__":
    method, began = sys.argv[1], time.time()
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    START
    found = sorted(queue.get() for _ in range(3))
    assert [each[:3] for each in found] == [(rank, 3.0, [0, 1, 2]) for rank in range(3)], found
    if "spawn" in sys.argv[2]:
        assert [each[3] for each in found] == [1, 1, 1]
    assert 1e-4 < time.time() - began < 1
"""
STARTS = {
    "mp.spawn": "mp.spawn(work, args=(3, method, queue), nprocs=3)",
    "spawn later": "started = mp.spawn(work, args=(3, method, queue), nprocs=3, join=False)\n    while not started.join(): pass",
    "processes of spawn": "[context.Process(target=work, args=(rank, 3, method, queue)).start() for rank in range(3)]",
    "forks": "processes = [mp.Process(target=work, args=(rank, 3, method, queue)) for rank in range(3)]\n"
    "    [each.start() for each in processes]\n    [each.join() for each in processes]\n"
    "    assert [each.exitcode for each in processes] == [0, 0, 0]",
}


def script(folder: Path, text: str) -> Path:
    (folder / "counted.py").write_text("times = 0\ndef again():\n    global times\n    times += 1\n    return times\n")
    path = folder / "program.py"
    path.write_text(dedent(text))
    return path


def simulated(folder: Path, text: str, *arguments: Any, **options: Any) -> pr.Run:
    return pr.simulate(script(folder, text), *arguments, **options)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("method", ["tcp://127.0.0.1:29123", "file://{}/met"])
def test_processes_that_a_program_starts_are_its_ranks(tmp_path: Path, start: str, method: str) -> None:
    run = simulated(tmp_path, PROGRAM.replace("START", STARTS[start]), method.format(tmp_path), start)
    assert run.summary.workers == 3
    assert run.summary.virtual_seconds


def test_a_second_start_follows_the_first_in_virtual_time(tmp_path: Path) -> None:
    twice = PROGRAM.replace("START", STARTS["mp.spawn"] + "\n    [queue.get() for _ in range(3)]\n    " + STARTS["mp.spawn"])
    once = simulated(tmp_path, PROGRAM.replace("START", STARTS["mp.spawn"]), "tcp://127.0.0.1:29123", "mp.spawn")
    again = simulated(tmp_path, twice, "tcp://127.0.0.1:29123", "mp.spawn")
    assert once.summary.virtual_seconds
    assert again.summary.virtual_seconds == pytest.approx(2 * once.summary.virtual_seconds, rel=0.01)
    assert again.summary.bytes_sent == 2 * once.summary.bytes_sent


INIT = "import torch.distributed as dist, torch.multiprocessing as mp, sys\n"


@pytest.mark.parametrize(
    ("text", "ranks", "error", "sentence"),
    [
        ("print()", None, WorkloadError, "started no rank: give --workers"),
        ("dist.init_process_group('gloo')", None, WorkloadError, "give --workers"),
        ("dist.init_process_group('gloo', rank=0, world_size=2, init_method='tcp://127.0.0.1:1')", None, WorkloadError, "give --workers"),
        ("dist.init_process_group('gloo', rank=0, world_size=2)", 3, CompositionError, "Process 0 of 3 calls itself rank 0 of 2"),
        ("mp.spawn(print, nprocs=2)", 2, WorkloadError, "leave --workers out of polyrhythm simulate"),
        ("import polyrhythm as pr\npr.run(print, on=pr.Processes())", 2, CompositionError, "pr.run starts workers itself.*with python, or"),
        ("import polyrhythm as pr\npr.run(print, on=pr.Simulator())", None, CompositionError, "pr.run starts workers itself.*pr.join"),
        ("import polyrhythm as pr\npr.simulate(print, ranks=2)", 2, CompositionError, "pr.simulate starts workers itself"),
        ("1 / 0", None, WorkerFailed, "the program failed: ZeroDivisionError"),
        (
            "dist.init_process_group('gloo')\nif dist.get_rank() == 1: sys.exit(3)",
            2,
            WorkerFailed,
            r"worker/1 failed: it called sys.exit\(3\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(
    tmp_path: Path, text: str, ranks: int | None, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        simulated(tmp_path, INIT + text, ranks=ranks)
