"""Unmodified DistributedDataParallel, FSDP2 and distributed checkpoints on the torch backend."""

from __future__ import annotations

import _thread
import os
from itertools import starmap

import torch
import torch.distributed as dist
import torch_ranks
import training_laws
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from polyrhythm.process_group import process_group
from polyrhythm.process_group.work_queue import CompletedWork


def training(rank: int, ranks: int, folder: str) -> dict[str, str]:
    dist.init_process_group("polyrhythm", init_method=torch_ranks.meeting(folder), rank=rank, world_size=ranks)
    return torch_ranks.outcomes(training_laws.laws(folder))


def test_two_ranks_train_to_the_same_bits_as_through_gloo() -> None:
    found = torch_ranks.run(training, 2, join=False)
    assert len(found[0]) == 13
    for rank, outcomes in enumerate(found):
        for name, text in outcomes.items():
            assert not text, f"rank {rank}, {name}: {text}"


def within_a_hook(rank: int, ranks: int) -> dict[str, bool]:
    done: dict[str, bool] = {}

    def hook(state, bucket):  # type: ignore[no-untyped-def]  # torch takes annotations for its own types only, not for their names
        value = bucket.buffer()
        each = value.new_zeros(len(value) * ranks)
        works = {
            "all_reduce": dist.all_reduce(value, async_op=True),
            "all_gather_into_tensor": dist.all_gather_into_tensor(each, value, async_op=True),
            "reduce_scatter_tensor": dist.reduce_scatter_tensor(value, each, async_op=True),
            "all_reduce_coalesced": dist.all_reduce_coalesced([value], async_op=True),
        }
        done.update(
            {name: work.done() if isinstance(work, torch._C.Future) else isinstance(work, CompletedWork) for name, work in works.items()}
        )
        future: Future[Tensor] = Future()
        future.set_result(value)
        return future

    model = DistributedDataParallel(nn.Linear(3, 2))
    model.register_comm_hook(None, hook)
    model(torch.ones(1, 3)).sum().backward()
    return done


def test_whatever_a_hook_calls_for_is_done_before_the_call_returns() -> None:
    for done in torch_ranks.run(within_a_hook, 2):
        assert len(done) == 4
        assert all(done.values()), done


def test_a_thread_of_c_plus_plus_calls_from_nowhere() -> None:
    found: list[str] = []
    _thread.start_new_thread(found.extend, (starmap(process_group._caller_module, [()]),))
    while not found:
        os.sched_yield()
    assert found == [""]
