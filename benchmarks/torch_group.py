"""Collectives, sends and receives, and steps of FSDP2, through gloo and through polyrhythm, side by side.

    python benchmarks/torch_group.py [--kib 64 1024 16384 65536] [--rounds 7] [--steps mlp-21m] [--json FILE]

Two processes with one thread each have both backends at once, and take turns: in each round every operation is repeated for some time
through the one and as often through the other; who begins alternates. The table has medians over the rounds: microseconds of a call (of
the slower rank, waits included), the ratio within a round, and the lowest and the highest of these. `send/receive` is a message there and
back, `exchange` one batched send and receive of each rank at once. A step of FSDP2 is one of the perceptron of `torch_backend.py`, each of
whose layers is sharded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch_backend import RANKS, stepper

import polyrhythm.process_group  # noqa: F401

SECONDS = 0.2
"""The time of one operation in one round and backend, about."""
Group = dist.ProcessGroup
BACKENDS = ("gloo", "polyrhythm")


def operations(nbytes: int, rank: int) -> dict[str, Callable[[Group], None]]:
    """Each on float32 of `nbytes` at each rank."""
    own, other = torch.ones(nbytes // 4), torch.empty(nbytes // 4)
    part, whole = torch.ones(nbytes // 4 // RANKS), torch.empty(nbytes // 4)

    def there_and_back(group: Group) -> None:
        if rank:
            dist.recv(other, 0, group=group)
            dist.send(own, 0, group=group)
        else:
            dist.send(own, 1, group=group)
            dist.recv(other, 1, group=group)

    def exchange(group: Group) -> None:
        both = [dist.P2POp(dist.isend, own, 1 - rank, group), dist.P2POp(dist.irecv, other, 1 - rank, group)]
        for work in dist.batch_isend_irecv(both):
            work.wait()

    return {
        "all-reduce": lambda group: dist.all_reduce(own, group=group),
        "reduce-scatter": lambda group: dist.reduce_scatter_tensor(part, own, group=group),
        "all-gather": lambda group: dist.all_gather_into_tensor(whole, part, group=group),
        "all-to-all": lambda group: dist.all_to_all_single(whole, own, group=group),
        "send/receive": there_and_back,
        "exchange": exchange,
    }


def steps_of_fsdp(name: str, rank: int, groups: dict[str, Group]) -> dict[str, Callable[[], None]]:
    """A step of training, by backend."""

    def sharded(model: nn.Module, group: Group) -> nn.Module:
        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return {backend: stepper(name, rank, lambda model, group=group: sharded(model, group)) for backend, group in groups.items()}


def seconds_of(call: Callable[[], None], count: int) -> float:
    """Of one call, from when all ranks begin until all are through."""
    dist.barrier()
    began = time.perf_counter()
    for _ in range(count):
        call()
    dist.barrier()
    return (time.perf_counter() - began) / count


def compare(calls: dict[str, Callable[[], None]], rounds: int, seconds: float) -> dict[str, object]:
    """Medians in microseconds by backend, and the ratios of rounds."""
    once = max(seconds_of(call, 2) for call in calls.values())
    count = torch.tensor(max(2, min(500, int(seconds / once))))
    dist.broadcast(count, 0)
    taken: dict[str, list[float]] = {backend: [] for backend in calls}
    for number in range(rounds):
        for backend in list(calls) if number % 2 else list(calls)[::-1]:
            taken[backend].append(seconds_of(calls[backend], int(count)))
    ratios = sorted(ours / theirs for ours, theirs in zip(taken["polyrhythm"], taken["gloo"], strict=True))
    found: dict[str, object] = {f"{backend}_us": round(statistics.median(values) * 1e6) for backend, values in taken.items()}
    return found | {"ratio": round(statistics.median(ratios), 2), "lowest": round(ratios[0], 2), "highest": round(ratios[-1], 2)}


def run(rank: int, meeting: str, options: argparse.Namespace) -> None:
    """One of the two processes."""
    torch.set_num_threads(1)
    dist.init_process_group("polyrhythm", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    rows: dict[str, dict[str, object]] = {}

    def keep(name: str, row: dict[str, object]) -> None:
        rows[name] = row
        if rank == 0:
            print(f"| {name} | " + " | ".join(str(value) for value in row.values()) + " |", flush=True)

    if rank == 0:
        print("| | gloo, us | polyrhythm, us | ratio | lowest | highest |\n|---|---|---|---|---|---|")
    for model in options.steps:
        keep(f"step of FSDP2, {model}", compare(steps_of_fsdp(model, rank, groups), options.rounds, 10 * SECONDS))
    for kib in options.kib:
        for name, call in operations(kib * 1024, rank).items():
            each = {backend: (lambda call=call, group=group: call(group)) for backend, group in groups.items()}
            keep(f"{name} of {kib} KiB", compare(each, options.rounds, SECONDS))
    if rank == 0:
        result = {"ranks": RANKS, "threads": 1, "rounds": options.rounds, "cores": os.cpu_count(), "load": os.getloadavg(), "rows": rows}
        print("load", result["load"])
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    dist.destroy_process_group()


def main() -> None:
    """Start both processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kib", type=int, nargs="*", default=[64, 1024, 16384, 65536])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", nargs="*", default=["mlp-21m"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (str(Path(folder) / "meeting"), options), RANKS)


if __name__ == "__main__":
    main()
