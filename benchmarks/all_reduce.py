"""All-reduce and reduce-scatter between processes of one host: bus bandwidth and latency against gloo, and against bare copies.

    python benchmarks/all_reduce.py [--ranks 2] [--kib 4 64 1024 4096 65536 262144] [--rounds 5] [--json FILE] [--plot FILE]

`polyrhythm` is dist.all_reduce on our torch backend, `group` the same without torch.distributed around it, `copy` what one rank
needs to copy as many bytes with torch while the others do too, `shared copy` the same into memory that all ranks have mapped, each
into a part of its own.
Ways take turns; a figure is the median over the rounds of the slowest rank's mean. Bus bandwidth is 2 (P - 1) / P payloads (half as
much for reduce-scatter) over the time, as NCCL's tests count it; for copies it is the bytes copied over the time.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drawing
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from polyrhythm.core.shared_memory import MemoryGroup, SharedSegment
from polyrhythm.core.shared_memory.segment import CHUNK

SECONDS = 0.15
"""How long each way is measured in each round, at least one call."""


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kib", type=int, nargs="+", default=[4, 64, 1024, 4096, 65536, 262144])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="where to draw the times, as SVG")
    given = parser.parse_args()
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    segment, windows = SharedSegment.create(given.ranks), SharedSegment.create(given.ranks)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = (given.ranks, given.kib, given.rounds, (segment.path, windows.path), port, results)
    processes = [context.Process(target=measure, args=(rank, *arguments)) for rank in range(given.ranks)]
    for process in processes:
        process.start()
    seconds: dict[str, dict[int, float]] = results.get()
    for process in processes:
        process.join()
    show(seconds, given)
    if given.plot:
        sizes = {_name(size): {way: times[size] for way, times in seconds.items()} for size in given.kib}
        given.plot.write_text(drawing.bars(sizes, {"polyrhythm", "group", "polyrhythm reduce-scatter"}, "time of a call"))
    if given.json:
        document = {"torch": torch.__version__, "ranks": given.ranks, "rounds": given.rounds, "seconds": seconds}
        given.json.write_text(json.dumps(document, indent=2) + "\n")


def _name(kib: int) -> str:
    return f"{kib // 1024:,} MiB" if kib >= 1024 else f"{kib} KiB"


def measure(rank: int, ranks: int, kib: list[int], rounds: int, paths: tuple[str, str], port: int, results: Any) -> None:
    """One rank: all ways at all sizes; rank 0 tells."""
    import polyrhythm.process_group  # noqa: F401

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    dist.init_process_group("gloo")
    ours = dist.new_group(backend="polyrhythm")
    group = MemoryGroup(SharedSegment.open(paths[0], ranks), rank)
    window = SharedSegment.open(paths[1], ranks).base[rank * CHUNK : (rank + 1) * CHUNK].view(torch.float32)
    found: dict[str, dict[int, float]] = {}
    for size in kib:
        n = size * 256
        value, part, other = torch.ones(n), torch.empty(n // ranks), torch.empty(n)
        ways: dict[str, Callable[[], object]] = {
            "gloo": lambda v=value: dist.all_reduce(v),  # type: ignore[misc]
            "polyrhythm": lambda v=value: dist.all_reduce(v, group=ours),  # type: ignore[misc]
            "group": lambda v=value: group.reduce(v, v),  # type: ignore[misc]
            "gloo reduce-scatter": lambda v=value, p=part: dist.reduce_scatter_tensor(p, v),  # type: ignore[misc]
            "polyrhythm reduce-scatter": lambda v=value, p=part: dist.reduce_scatter_tensor(p, v, group=ours),  # type: ignore[misc]
            "copy": lambda v=value, o=other: o.copy_(v),  # type: ignore[misc]
            "shared copy": lambda v=value, w=window: through(v, w),  # type: ignore[misc]
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, call in ways.items():
                value.fill_(1)
                times[way].append(slowest(call, group))
        for way, seconds in times.items():
            found.setdefault(way, {})[size] = statistics.median(seconds)
    if rank == 0:
        results.put(found)
    dist.barrier()
    dist.destroy_process_group()


def through(value: Tensor, window: Tensor) -> None:
    """Copy `value` into a piece of shared memory, window after window."""
    for part in value.split(window.numel()):
        window[: part.numel()].copy_(part)


def slowest(call: Callable[[], object], group: MemoryGroup) -> float:
    """The mean time of a call at the slowest rank; all make equally many."""
    call()
    group.barrier()
    began = time.perf_counter()
    call()
    once = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
    agreed = torch.empty(group.ranks, dtype=torch.float64)
    group.gather(once, agreed)
    calls = max(1, min(2000, int(SECONDS / max(float(agreed.max()), 1e-6))))
    group.barrier()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    group.gather(torch.tensor([(time.perf_counter() - began) / calls], dtype=torch.float64), agreed)
    return float(agreed.max())


def show(seconds: dict[str, dict[int, float]], given: argparse.Namespace) -> None:
    """The table: microseconds, bandwidth, and the ratio to gloo's."""
    factor = 2 * (given.ranks - 1) / given.ranks
    print("| size | " + " | ".join(seconds) + " | of gloo's time | of the copy's bandwidth |")
    print("|---|" + "---|" * (len(seconds) + 2))
    for size in given.kib:
        cells = []
        for way, times in seconds.items():
            moved = size * 1024 * (1 if "copy" in way else factor / (2 if "scatter" in way else 1))
            cells.append(f"{times[size] * 1e6:,.0f} µs, {moved / times[size] / 1e9:.2f} GB/s")
        bandwidth = factor / seconds["polyrhythm"][size] * seconds["copy"][size]
        print(
            f"| {_name(size)} | " + " | ".join(cells) + f" | {seconds['polyrhythm'][size] / seconds['gloo'][size]:.3f} | {bandwidth:.2f} |"
        )


if __name__ == "__main__":
    main()
