"""The contestants of `partition_steps.py`: each trains the same GPT on two processes, some steps whenever it is told to.

    python benchmarks/partition_contestants.py NAME ADDRESS

Every rank connects to the socket at ADDRESS, sends its process's number, gets a number of steps, takes them, and answers with the seconds,
those of a core, and the last loss; 0 ends it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.partition import Pipelined, Zero
from polyrhythm.workloads.chars import corpus, windows
from polyrhythm.workloads.gpt import Gpt, GptSize

RANKS, BATCH, CONTEXT = 2, 8, 64
SIZE = GptSize(corpus().vocabulary, CONTEXT, layers=6, width=512, heads=8)
Step = Callable[[], float]
"""One training step, and its loss at this rank."""


def answer(address: str, step: Step) -> None:
    """Take steps as the benchmark says."""
    with Client(address, "AF_UNIX") as benchmark:
        benchmark.send(os.getpid())
        while steps := benchmark.recv():
            began, used = time.perf_counter(), time.process_time()
            for _ in range(steps):
                loss = step()
            benchmark.send((time.perf_counter() - began, time.process_time() - used, loss))


def loss_of(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def gpt() -> Gpt:
    """With the same weights in every process."""
    torch.manual_seed(0)
    return Gpt(SIZE)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=3e-4, foreach=True)


def batches(parts: int, part: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Of each batch the part of one rank."""
    dataset = windows(corpus().training, CONTEXT, BATCH * 16)
    every = [dataset[k] for k in range(BATCH * 16)]
    for number in count():
        own = every[number % 16 * BATCH :][:BATCH][part::parts]
        yield torch.stack([x for x, _ in own]), torch.stack([y for _, y in own])


def ours(address: str, **way: Any) -> None:
    """A run of Polyrhythm."""

    def train(worker: pr.Worker) -> None:
        model = gpt()
        model, optimizer = worker.attach(model, adam(model), loss=loss_of)
        given = batches(worker.replicas, worker.rank % worker.replicas)

        def step() -> float:
            optimizer.zero_grad()
            loss = worker.train_step(*next(given))
            worker.count(BATCH // worker.replicas)
            optimizer.step()
            return loss.item()

        answer(address, step)

    pr.run(train, on=pr.Processes(threads=1), seed=1, **way)


def usual(model: nn.Module, rank: int) -> Step:
    """Steps of an ordinary loop."""
    optimizer, given = adam(model), batches(RANKS, rank)

    def step() -> float:
        x, y = next(given)
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def fsdp(rank: int, reshard: bool) -> Step:
    """FSDP2 of each block, and of the rest."""
    from torch.distributed.fsdp import fully_shard

    model = gpt()
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=reshard)
    return usual(fully_shard(model, reshard_after_forward=reshard), rank)


def deepspeed(rank: int, stage: int) -> Step:
    """ZeRO of DeepSpeed, with the buffers of its defaults."""
    import deepspeed as them

    model = gpt()
    settings = {
        "train_micro_batch_size_per_gpu": BATCH // RANKS,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }
    engine, *_ = them.initialize(model=model, optimizer=adam(model), config=settings, dist_init_required=False)
    given = batches(RANKS, rank)

    def step() -> float:
        x, y = next(given)
        loss = loss_of(engine(x), y)
        engine.backward(loss)
        engine.step()
        return float(loss.item())

    return step


class Half(nn.Module):
    """One of the two stages of a GPT, cut in the middle of its blocks."""

    def __init__(self, model: Gpt, rank: int) -> None:
        super().__init__()
        middle = len(model.blocks) // 2
        if rank:
            self.blocks, self.norm, self.score = model.blocks[middle:], model.norm, model.score
        else:
            self.symbols, self.positions, self.blocks = model.symbols, model.positions, model.blocks[:middle]
        self._rank = rank

    def forward(self, x: Tensor) -> Tensor:
        if self._rank:
            return self.score(self.norm(self.blocks(x)))  # type: ignore[no-any-return]
        return self.blocks(self.symbols(x) + self.positions(torch.arange(x.shape[1])))  # type: ignore[no-any-return]


def pipelining(rank: int, micro_batches: int) -> Step:
    """Schedule1F1B of torch.distributed.pipelining."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    model = Half(gpt(), rank)
    stage = PipelineStage(model, rank, RANKS, torch.device("cpu"))
    schedule, optimizer, given = Schedule1F1B(stage, micro_batches, loss_fn=loss_of), adam(model), batches(1, 0)
    loss = torch.zeros(())

    def step() -> float:
        x, y = next(given)
        optimizer.zero_grad()
        losses: list[Tensor] = []
        if rank:
            schedule.step(target=y, losses=losses)
            loss.fill_(torch.stack(losses).mean())
        else:
            schedule.step(x)
        optimizer.step()
        dist.broadcast(loss, RANKS - 1)
        return loss.item()

    return step


OURS: dict[str, dict[str, Any]] = {
    "Zero(2)": {"mesh": pr.Mesh(dp=RANKS), "strategy": {"dp": Zero(2)}},
    "Zero(3)": {"mesh": pr.Mesh(dp=RANKS), "strategy": {"dp": Zero(3)}},
    "1F1B, 4 micro-batches": {"mesh": pr.Mesh(pp=RANKS), "cut": pr.Cut(pipeline=Pipelined(micro_batches=4))},
    "1F1B, 8 micro-batches": {"mesh": pr.Mesh(pp=RANKS), "cut": pr.Cut(pipeline=Pipelined(micro_batches=8))},
}
RIVALS: dict[str, Callable[[int], Step]] = {
    "FSDP2 without resharding": lambda rank: fsdp(rank, reshard=False),
    "FSDP2": lambda rank: fsdp(rank, reshard=True),
    "DeepSpeed ZeRO-2": lambda rank: deepspeed(rank, 2),
    "DeepSpeed ZeRO-3": lambda rank: deepspeed(rank, 3),
    "torch 1F1B, 4 micro-batches": lambda rank: pipelining(rank, 4),
    "torch 1F1B, 8 micro-batches": lambda rank: pipelining(rank, 8),
}
COMPARED = {
    "zero-2": ("Zero(2)", "FSDP2 without resharding", "DeepSpeed ZeRO-2"),
    "zero-3": ("Zero(3)", "FSDP2", "DeepSpeed ZeRO-3"),
    "1f1b-4": ("1F1B, 4 micro-batches", "torch 1F1B, 4 micro-batches"),
    "1f1b-8": ("1F1B, 8 micro-batches", "torch 1F1B, 8 micro-batches"),
}


def rival(rank: int, name: str, address: str, meeting: str) -> None:
    """One rank of a rival."""
    os.setsid()  # as ranks of ours: Linux shares cores out among sessions first
    torch.set_num_threads(1)
    environment = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "DS_ACCELERATOR": "cpu"}
    os.environ.update({key: str(value) for key, value in environment.items()})
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    answer(address, RIVALS[name](rank))
    dist.destroy_process_group()


def main(name: str, address: str) -> None:
    if name in OURS:
        ours(address, **OURS[name])
        return
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(rival, (name, address, str(Path(folder) / "meeting")), RANKS)


if __name__ == "__main__":
    main(*sys.argv[1:])
