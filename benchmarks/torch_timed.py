"""A script of torch.distributed that prints the median seconds of its steps: DistributedDataParallel, FSDP2 or a pipeline.

polyrhythm lab --hosts 2 --network slow -- python benchmarks/torch_timed.py ddp
polyrhythm simulate --workers 2 --network slow benchmarks/torch_timed.py ddp
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS, BATCH = 384, 6, 64
STEPS, WARM = 9, 3
STILL = 240
"""Seconds after which the lines at which all threads wait are printed, and the process ends."""


def layers() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)]


def trained(model: nn.Module) -> Callable[[torch.Tensor], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def ddp() -> Callable[[torch.Tensor], None]:
    return trained(DistributedDataParallel(nn.Sequential(*layers()), bucket_cap_mb=1))


def fsdp2() -> Callable[[torch.Tensor], None]:
    parts = layers()
    for part in parts:
        fully_shard(part)
    return trained(fully_shard(nn.Sequential(*parts)))


def pipeline() -> Callable[[torch.Tensor], None]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    every = layers()
    own = nn.Sequential(*(every[k] for k in torch.tensor_split(torch.arange(LAYERS), ranks)[rank].tolist()))
    schedule = Schedule1F1B(PipelineStage(own, rank, ranks, torch.device("cpu")), 8, lambda y, target: (y - target).square().mean())
    optimizer = torch.optim.SGD(own.parameters(), lr=0.01)

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x)
        elif rank == ranks - 1:
            schedule.step(target=x)
        else:
            schedule.step()
        optimizer.step()

    return step


WAYS = {"ddp": ddp, "fsdp2": fsdp2, "pipeline": pipeline}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    given = parser.parse_args()
    faulthandler.dump_traceback_later(STILL, exit=True)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    step, times = WAYS[given.way](), []
    x = torch.randn(BATCH, WIDTH)
    for _ in range(STEPS):
        dist.barrier()
        began = time.perf_counter()
        step(x)
        times.append(time.perf_counter() - began)
    longest = torch.tensor(times)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(f"seconds {statistics.median(longest[WARM:].tolist()):.6f}", flush=True)
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # else DDP's ~ProcessGroupGloo may wait, with the GIL, for a thread that waits for the GIL to let go of a tensor


if __name__ == "__main__":
    main()
