"""Laws of torch's collectives in virtual time: what they return is what they return in real processes."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import polyrhythm as pr
from polyrhythm.errors import RunError

from .programs import group


def test_futures_are_chained_before_anybody_waits() -> None:
    def main() -> None:
        with group() as (_, ranks):
            future = dist.all_reduce(torch.ones(2), async_op=True).get_future()
            tripled = future.then(lambda done: 3 * done.wait()[0])
            raised = tripled.then(lambda done: done.wait().no_such_attribute)
            assert tripled.then(lambda done: done.value() + 1).wait().tolist() == [3.0 * ranks + 1] * 2
            assert tripled.wait().tolist() == tripled.value().tolist() == [3.0 * ranks] * 2
            with pytest.raises(AttributeError, match="no_such_attribute"):
                raised.wait()

    pr.simulate(main, ranks=3)


def test_futures_are_waited_for_together_whichever_is_done_first() -> None:
    def main() -> None:
        with group() as (rank, ranks):
            late = dist.irecv(torch.ones(1), src=1).get_future() if rank == 0 else None
            sums = [dist.all_reduce(torch.full((2,), float(part)), async_op=True).get_future() for part in range(3)]
            found = torch.futures.collect_all(sums).wait()
            assert [each.wait()[0].tolist() for each in found] == [[float(ranks * part)] * 2 for part in range(3)]
            if rank == 1:
                dist.send(torch.zeros(1), dst=0)
            if late is not None:
                assert torch.futures.wait_all([late])[0][0].tolist() == [0.0]

    pr.simulate(main, ranks=3)


def test_ranks_of_distributed_data_parallel_may_have_uneven_inputs() -> None:
    gradients: dict[int, list[float]] = {}

    def main() -> None:
        with group() as (rank, _):
            model = DistributedDataParallel(nn.Linear(2, 1, bias=False))
            with model.join():
                for step in range(2 + rank):
                    model.zero_grad()
                    model(torch.full((1, 2), 3.0 * (step + 1))).sum().backward()
            gradients[rank] = next(model.parameters()).grad.flatten().tolist()  # type: ignore[union-attr]

    pr.simulate(main, ranks=3)
    assert gradients[2] == [4.0] * 2  # it is alone in the last step, and the sum is divided by all ranks


def test_monitored_barriers_have_the_words_of_gloo() -> None:
    def main() -> None:
        with group() as (rank, _):
            if rank != 1:
                words = "Rank 1 failed to pass monitoredBarrier" if rank == 0 else f"Rank {rank} successfully reached monitoredBarrier"
                with pytest.raises(RunError, match=words):
                    dist.monitored_barrier(timeout=timedelta(seconds=2))
            time.sleep(10)
            if rank == 0:
                with pytest.raises(RunError, match="Rank 0 timed out in monitoredBarrier"):
                    dist.monitored_barrier(timeout=timedelta(0))
                with pytest.raises(RunError, match="Ranks 1, 2 failed to pass monitoredBarrier in 1000 ms"):
                    dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=True)

    pr.simulate(main, ranks=3)


def test_what_is_saved_for_a_backward_pass_may_be_exchanged_in_place() -> None:
    def main() -> None:
        with group() as (_, ranks):
            weight = torch.ones(3, requires_grad=True)
            outputs = [torch.relu(weight * k) for k in range(1, 6)]
            dist.all_reduce(outputs[0])
            dist.broadcast(outputs[1], 0)
            dist.all_gather_single(outputs[2], torch.ones(3 // ranks))
            dist.all_reduce(outputs[3], async_op=True).wait()
            dist.reduce(outputs[4], 1)
            sum(outputs, torch.zeros(3)).sum().backward()
            assert weight.grad is not None
            assert weight.grad.tolist() == [15.0] * 3

    pr.simulate(main, ranks=3)
