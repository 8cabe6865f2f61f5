"""Ranks that die, that never come, and that cannot share memory."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from polyrhythm.core.shared_memory import MemoryGroup, SharedSegment
from polyrhythm.errors import RunError
from polyrhythm.process_group import rendezvous
from polyrhythm.process_group.rendezvous import SharedMembership
from polyrhythm.process_group.watchdog import Watchdog


def one_is_killed(rank: int, ranks: int) -> list[object]:
    dist.all_reduce(torch.ones(2))
    model = DistributedDataParallel(nn.Linear(4, 4))
    work = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    errors = []
    with pytest.raises(RunError) as caught:
        dist.all_reduce(torch.ones(100_000))
    errors.append(str(caught.value))
    with pytest.raises(RunError) as caught:
        dist.all_reduce(torch.ones(2), async_op=True).wait()
    errors.append(str(caught.value))
    with pytest.raises(RuntimeError) as other:
        model(torch.ones(1, 4)).sum().backward()
    errors.append(str(other.value))
    return [time.monotonic() - began, *errors]


def test_a_killed_rank_ends_the_waits_of_all_others_and_is_named() -> None:
    first, second, third = torch_ranks.run(one_is_killed, 3)
    assert second == -signal.SIGKILL
    for seconds, *errors in (first, third):
        assert seconds < 10
        for text in errors:
            assert "Rank 1 was lost" in text


def one_does_not_come(rank: int, ranks: int, folder: str) -> str:
    timeout = timedelta(seconds=1.5)
    dist.init_process_group("polyrhythm", init_method=torch_ranks.meeting(folder), rank=rank, world_size=ranks, timeout=timeout)
    store = dist.group.WORLD.get_group_store()
    errors = ""
    if rank == 0:
        with pytest.raises(RunError) as caught:
            dist.all_reduce(torch.ones(2))
        errors = str(caught.value)
        store.set("seen", "1")
    else:
        store.wait(["seen"], timedelta(seconds=30))
    return errors


def test_a_wait_ends_at_the_timeout_of_the_group() -> None:
    assert "before the timeout was over" in torch_ranks.run(one_does_not_come, 2, join=False)[0]


def they_disagree(rank: int, ranks: int) -> list[str]:
    errors = []
    for mine in (
        lambda group: dist.all_reduce(torch.ones(16 if rank == 0 else 12), group=group),
        lambda group: dist.all_reduce(torch.ones(6), group=group) if rank == 0 else dist.broadcast(torch.ones(6), 0, group=group),
        lambda group: dist.all_reduce(torch.ones(16 if rank == 0 else 12), group=group, async_op=True).wait(),
        lambda group: dist.all_gather([torch.ones(3 + rank), torch.ones(3 + rank)], torch.ones(3 + rank), group=group),
    ):
        group = dist.new_group(backend="polyrhythm")
        with pytest.raises(RunError) as caught:
            mine(group)
        errors.append(str(caught.value))
    dist.barrier()  # nobody ends before all have their errors
    return errors


def test_ranks_that_do_different_things_get_errors_instead_of_numbers() -> None:
    for rank, errors in enumerate(torch_ranks.run(they_disagree, 2)):
        assert len(errors) == 4
        for text in errors:
            assert f"ranks disagree: rank {1 - rank} of the group" in text
        mine = 16 if rank == 0 else 12
        assert f"At all_reduce of float32 [{mine}]: ranks disagree" in errors[0]
        assert f"At {'all_reduce' if rank == 0 else 'broadcast'} of float32 [6]: ranks disagree" in errors[1]
        assert f"At all_reduce of float32 [{mine}]: ranks disagree" in errors[2]
        assert f"At all_gather of float32 [{3 + rank}], float32 [{3 + rank}]: ranks disagree" in errors[3]


def they_meet_again(rank: int, ranks: int, folder: str) -> list[float]:
    store, sums = dist.FileStore(f"{folder}/kept", ranks), []
    for turn in range(3):
        dist.init_process_group("polyrhythm", store=store, rank=rank, world_size=ranks)
        tensor = torch.tensor([turn + float(rank)])
        dist.all_reduce(tensor)
        sums.append(tensor.item())
        dist.destroy_process_group()
    return sums


def test_a_group_may_be_ended_and_made_again_over_the_same_store() -> None:
    assert torch_ranks.run(they_meet_again, 2, join=False) == [[1.0, 3.0, 5.0]] * 2


def test_a_rank_that_had_ended_before_it_was_watched_is_lost() -> None:
    lost: list[int] = []
    segment = SharedSegment.create(2)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
        watch = Watchdog(
            group := MemoryGroup(segment, 0), SharedMembership(segment, None, 0, (os.getpid(), ended.pid)), [0, 7], lost.append
        )
    try:
        with pytest.raises(RunError, match="Rank 7 was lost"), watch.over(30, "a sum"):
            group.barrier()
        assert lost == [1]
    finally:
        watch.close()
        segment.close()


def a_roll_is_called(rank: int, ranks: int) -> list[str]:
    short = timedelta(seconds=0.3)
    dist.monitored_barrier(timeout=timedelta(seconds=30), wait_all_ranks=True)
    dist.group.WORLD.monitored_barrier(timedelta(seconds=30))
    errors = []
    for all_ranks in (False, True):
        if rank in (0, 1):
            with pytest.raises(RuntimeError) as caught:
                dist.monitored_barrier(timeout=short, wait_all_ranks=all_ranks)
            errors.append(str(caught.value))
    dist.barrier()
    return errors


def test_monitored_barrier_names_those_who_do_not_come() -> None:
    first, second, *others = torch_ranks.run(a_roll_is_called, 4)
    assert first[0].startswith("Rank 2 failed to pass monitoredBarrier in 300 ms")
    assert first[1].startswith("Ranks 2, 3 failed to pass monitoredBarrier in 300 ms")
    for text in second:
        assert text.startswith("Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0")
    assert others == [[], []]


def one_is_killed_before_it_sends(rank: int, ranks: int) -> str:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RunError) as caught:
        dist.recv(torch.empty(3), 1)
    return str(caught.value)


def test_a_receive_from_a_killed_rank_ends() -> None:
    assert "Rank 1 was lost" in torch_ranks.run(one_is_killed_before_it_sends, 2)[0]


class Elsewhere:
    """Stands for `SharedSegment` on another host."""

    @staticmethod
    def open(path: str, ranks: int) -> None:
        raise RunError("it is on another host")


def on_two_hosts(rank: int, ranks: int, folder: str) -> list[object]:
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("polyrhythm.process_group").addHandler(handler)
    if rank == 1:
        rendezvous.SharedSegment = Elsewhere  # type: ignore[misc, assignment]
    dist.init_process_group("polyrhythm", init_method=torch_ranks.meeting(folder), rank=rank, world_size=ranks)
    tensor = torch.tensor([rank + 1.0])
    dist.all_reduce(tensor)
    model = DistributedDataParallel(nn.Linear(2, 1, bias=False))
    model(torch.full((1, 2), float(rank))).sum().backward()
    return [records, tensor.item(), model.module.weight.grad.tolist()]


def test_ranks_that_cannot_share_memory_exchange_messages_and_log_why() -> None:
    results = torch_ranks.run(on_two_hosts, 2, join=False)
    for records, total, gradient in results:
        assert len(records) == 1
        assert "exchange messages" in records[0]
        assert "rank 1: it is on another host" in records[0]
        assert total == 3.0
        assert gradient == [[0.5, 0.5]]
