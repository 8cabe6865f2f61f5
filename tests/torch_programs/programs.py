"""Programs of torch.distributed, as its tutorials write them: each trains a small model and returns the loss of its last step.

`PROGRAMS` has what each is, and the ranks that share one batch: the losses are those of one process with the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH, WIDTH = 3, 24, 16


@contextmanager
def group() -> Iterator[tuple[int, int]]:
    """The default group: this rank, and the number of ranks."""
    dist.init_process_group("gloo")
    yield dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()


def samples(step: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step))
    return x, x[:, :4].argmax(1)


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))


def trained(model: nn.Module, part: int = 0, parts: int = 1, average: Callable[[], None] = lambda: None) -> float:
    """Train on part `part` of each batch; the mean loss of the last step over the parts."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        x, y = (each.chunk(parts)[part] for each in samples(step))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        average()
        optimizer.step()
    total = loss.detach()
    if parts > 1:
        dist.all_reduce(total)
    return float(total) / parts


def by_hand() -> float:
    with group() as (rank, ranks):
        model = perceptron()

        def average() -> None:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= ranks

        return trained(model, rank, ranks, average)


def ring() -> float:
    """Gradients go around a ring of sends and receives."""
    with group() as (rank, ranks):
        model = perceptron()

        def average() -> None:
            for parameter in model.parameters():
                total, passed = parameter.grad.clone(), parameter.grad.clone()
                for _ in range(ranks - 1):
                    received = torch.empty_like(passed)
                    sending = dist.P2POp(dist.isend, passed, (rank + 1) % ranks)
                    receiving = dist.P2POp(dist.irecv, received, (rank - 1) % ranks)
                    for work in dist.batch_isend_irecv([sending, receiving]):
                        work.wait()
                    total, passed = total + received, received
                parameter.grad = total / ranks

        return trained(model, rank, ranks, average)


def data_parallel() -> float:
    with group() as (rank, ranks):
        return trained(DistributedDataParallel(perceptron(), bucket_cap_mb=0.001), rank, ranks)


def sharded() -> float:
    with group() as (rank, ranks):
        model = perceptron()
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        return trained(fully_shard(model), rank, ranks)


def tensor_parallel() -> float:
    with group() as (_, ranks):
        model = perceptron()
        parallelize_module(model, init_device_mesh("cpu", (ranks,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
        return trained(model)


def sharded_tensor_parallel() -> float:
    with group() as (_, ranks):
        mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("data", "tensor"))
        model = perceptron()
        parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(model, mesh=mesh["data"])
        part, parts = mesh["data"].get_local_rank(), ranks // 2
        loss = trained(model, part, parts)
        return loss / 2 if parts > 1 else loss  # all ranks have added theirs


def _pipeline(schedule: type[ScheduleGPipe] | type[Schedule1F1B]) -> float:
    with group() as (rank, ranks):
        model = perceptron()
        cut = [list(part) for part in torch.tensor_split(torch.arange(len(model)), ranks)]
        own = nn.Sequential(*(model[int(layer)] for layer in cut[rank]))
        stage = PipelineStage(own, rank, ranks, torch.device("cpu"))
        steps = schedule(stage, n_microbatches=4, loss_fn=F.cross_entropy)
        optimizer = torch.optim.SGD(own.parameters(), lr=0.1, momentum=0.9) if list(own.parameters()) else None
        for step in range(STEPS):
            x, y = samples(step)
            losses: list[Tensor] = []
            if optimizer is not None:
                optimizer.zero_grad()
            if rank == 0:
                steps.step(x, **({"target": y, "losses": losses} if ranks == 1 else {}))
            elif rank == ranks - 1:
                steps.step(target=y, losses=losses)
            else:
                steps.step()
            if optimizer is not None:
                optimizer.step()
        loss = torch.stack([each.detach() for each in losses]).mean() if losses else torch.zeros(())
        dist.broadcast(loss, ranks - 1)
        return float(loss)


def pipeline_by_waves() -> float:
    return _pipeline(ScheduleGPipe)


def pipeline_in_turns() -> float:
    return _pipeline(Schedule1F1B)


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the ranks on which it can run."""

    main: Callable[[], float]
    ranks: tuple[int, ...] = (2, 4)


PROGRAMS = [
    Program(by_hand),
    Program(ring),
    Program(data_parallel),
    Program(sharded),
    Program(tensor_parallel),
    Program(sharded_tensor_parallel),
    Program(pipeline_by_waves),
    Program(pipeline_in_turns),
]
CASES = [(program.main, ranks) for program in PROGRAMS for ranks in program.ranks]


def one_process() -> float:
    return trained(perceptron())
