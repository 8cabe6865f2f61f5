"""Laws of ranks that come too late, crash or wait for each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import polyrhythm as pr
from polyrhythm.errors import DeadlockError, WorkerFailed
from polyrhythm.hardware.faults import Crash

WAITS: dict[str, Callable[[], object]] = {
    "all_reduce": lambda: dist.all_reduce(torch.ones(2)),
    "barrier": dist.barrier,
    "recv": lambda: dist.recv(torch.ones(2), 2),
    "all_gather": lambda: dist.all_gather([torch.ones(2) for _ in range(3)], torch.ones(2)),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_rank_that_does_not_come_within_the_timeout_is_named_at_that_virtual_time(name: str) -> None:
    raised: dict[int, tuple[float, str]] = {}

    def main() -> None:
        dist.init_process_group("gloo", timeout=timedelta(seconds=60))
        began, rank = time.monotonic(), dist.get_rank()
        if rank == 2:
            time.sleep(100)
            return
        try:
            WAITS[name]()
        except dist.DistBackendError as problem:
            raised[rank] = time.monotonic() - began, str(problem)

    pr.simulate(main, ranks=3)
    for rank, (seconds, text) in raised.items():
        assert seconds == pytest.approx(60, abs=0.1)
        assert f"Rank {rank} has waited 60 s in {name.replace('recv', 'receive')}" in text
        assert "test_failures.py:" in text
    assert 0 in raised and (name == "recv" or any("for rank 2" in text for _, text in raised.values()))  # noqa: PT018


def test_in_time_is_in_time() -> None:
    def main() -> None:
        dist.init_process_group("gloo", timeout=timedelta(seconds=60))
        time.sleep(25 * dist.get_rank())
        for wait in WAITS.values():
            if wait is not WAITS["recv"]:
                wait()

    assert 50 < (pr.simulate(main, ranks=3).summary.virtual_seconds or 0) < 51


def test_ranks_that_all_wait_without_a_timeout_are_a_deadlock_at_once() -> None:
    def main() -> None:
        dist.init_process_group("gloo")
        dist.recv(torch.ones(2), 1 - dist.get_rank())

    with pytest.raises(DeadlockError, match=r"rank 0 waits in receive from 1 .* rank 1 waits in receive from 0"):
        pr.simulate(main, ranks=2)


def test_a_crash_ends_the_run_and_names_the_rank_as_torchrun_ends_all_with_one() -> None:
    def main() -> None:
        dist.init_process_group("gloo")
        for _ in range(20):
            time.sleep(0.1)
            dist.all_reduce(torch.ones(2))

    with pytest.raises(WorkerFailed, match="worker/1"):
        pr.simulate(main, ranks=3, on=pr.Simulator(faults=(Crash("worker/1", at=0.55),)))
