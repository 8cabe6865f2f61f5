"""Process groups whose members are on several hosts: here, processes that believe so, and do not share memory with all."""

from __future__ import annotations

import os
import signal
from functools import partial

import collective_laws
import pytest
import torch
import torch.distributed as dist
import torch_ranks
import training_laws
from torch.nn.parallel import DistributedDataParallel

from polyrhythm.core.shared_memory import SharedSegment
from polyrhythm.errors import RunError
from polyrhythm.process_group import rendezvous


class WithinHost:
    """Stands for `SharedSegment`, where memory of all `ranks` cannot be shared."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self.create = SharedSegment.create

    def open(self, path: str, ranks: int) -> SharedSegment:
        if ranks == self._ranks:
            raise RunError("it is on another host")
        return SharedSegment.open(path, ranks)


def join(rank: int, ranks: int, folder: str, hosts: int) -> None:
    os.environ["POLYRHYTHM_HOST_ID"] = f"host {rank % hosts}"
    os.environ["POLYRHYTHM_SECRET"] = "the secret of these tests"
    rendezvous.SharedSegment = WithinHost(ranks)  # type: ignore[misc, assignment]
    dist.init_process_group("polyrhythm", init_method=torch_ranks.meeting(folder), rank=rank, world_size=ranks)


def by_definition(rank: int, ranks: int, folder: str, hosts: int) -> dict[str, str]:
    join(rank, ranks, folder, hosts)
    collective_laws.SIZES = (1, 37, 5_000)  # type: ignore[assignment]
    laws = collective_laws.by_definition(rank, ranks)
    if ranks > 2:  # sums are those of hosts, and not in the order of ranks
        laws["sums_in_rank_order"] = sums
    found = torch_ranks.outcomes(laws)
    dist.monitored_barrier()
    return found


def sums() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for size in (1, 37, 5_000):
            own = collective_laws.numbers(rank, size, dtype)
            dist.all_reduce(own)
            total = sum(collective_laws.numbers(each, size, dtype).double() for each in range(ranks))
            torch.testing.assert_close(own.double(), total, rtol=0, atol=0.1 if dtype == torch.bfloat16 else 1e-5)
            mean = collective_laws.numbers(rank, size, torch.float32)
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            expected = sum(collective_laws.numbers(each, size, torch.float32) for each in range(ranks)) / ranks
            torch.testing.assert_close(mean, expected)


@pytest.mark.parametrize(("ranks", "hosts"), [(2, 2), (4, 2), (3, 2)])
def test_every_collective_gives_between_hosts_what_it_is_defined_to_give(ranks: int, hosts: int) -> None:
    found = torch_ranks.run(partial(by_definition, hosts=hosts), ranks, join=False)
    broken = [(rank, law, text) for rank, outcomes in enumerate(found) for law, text in outcomes.items() if text]
    assert broken == []


def training(rank: int, ranks: int, folder: str) -> dict[str, str]:
    join(rank, ranks, folder, hosts=2)
    laws = training_laws.laws(folder)
    return torch_ranks.outcomes(
        {name: laws[name] for name in ("plain", "PowerSGD hook", "ZeRO", "1F1B", "tensor parallel", "FSDP2", "checkpoint")}
    )


def test_two_hosts_train_to_the_same_bits_as_through_gloo() -> None:
    for rank, outcomes in enumerate(torch_ranks.run(training, 2, join=False)):
        for name, text in outcomes.items():
            assert not text, f"rank {rank}, {name}: {text}"


def one_is_killed(rank: int, ranks: int, folder: str) -> list[str]:
    join(rank, ranks, folder, hosts=2)
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]  # of two hosts each, over the same connections
    dist.all_reduce(torch.ones(2), group=pairs[rank // 2])
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    if rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    errors = []
    with pytest.raises(RunError) as caught:
        dist.all_reduce(torch.ones(100_000))
    errors.append(str(caught.value))
    with pytest.raises(RunError) as caught:
        dist.recv(torch.ones(3), 3)
    errors.append(str(caught.value))
    with pytest.raises(RuntimeError) as other:
        model(torch.ones(1, 2)).sum().backward()
    errors.append(str(other.value))
    if rank < 2:
        dist.all_reduce(torch.ones(2), group=pairs[0])
    return errors


def test_a_killed_rank_of_another_host_ends_the_waits_for_it_and_other_groups_continue() -> None:
    *others, last = torch_ranks.run(one_is_killed, 4, join=False)
    assert last == -signal.SIGKILL
    for errors in others:
        for text in errors:
            assert "Rank 3 was lost" in text
