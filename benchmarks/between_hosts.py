"""All-reduce between hosts, against gloo and against what the line allows.

    torchrun --nnodes 3 --nproc-per-node 1 ... benchmarks/between_hosts.py --megabytes 1 --bandwidth 50e6 --latency 0.02

Runs once in each process, under any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (the port after that is used
too, for gloo). Each algorithm reduces the same tensor `--rounds` times, `--pause` seconds apart, with and without lanes; a round
lasts until the last worker has the sum. Worker 0 prints one JSON object and a table.

`--bandwidth` (bits per second, of each host) and `--latency` (seconds, one way) are those of the line: with them the table has the
bound 2 a + 2 (1 - 1 / P) M / B, what two latencies and the least volume that an all-reduce can send take, in payload bytes alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from datetime import timedelta

import torch
from torch import Tensor, distributed

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.rendezvous.join import Joining, enter
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.core.protocols.algorithm import Algorithm, all_gather
from polyrhythm.topology import Direct, Ring

Reduce = Callable[[Tensor], Tensor]

_EARLY = 10


def measured(reduce: Reduce, agree: Callable[[float], float], value: Tensor, rounds: int, pause: float) -> list[float]:
    """Seconds of each round, those of the slowest worker; the rounds before them, in which windows and lanes open, are not counted."""
    seconds = []
    for number in range(rounds + _EARLY):
        agree(0.0)
        time.sleep(pause)
        began = time.perf_counter()
        total = reduce(value)
        seconds.append(agree(time.perf_counter() - began))
        assert bool((total == sum_of_equals(value)).all()), f"round {number} did not give the sum"
    return seconds[_EARLY:]


def sum_of_equals(value: Tensor) -> Tensor:
    """The sum where every worker holds the same."""
    return value * int(os.environ["WORLD_SIZE"])


def with_polyrhythm(algorithm: Algorithm, lanes: int, options: argparse.Namespace, value: Tensor) -> list[float]:
    """All-reduces by messages of this project's own."""
    workers = int(os.environ["WORLD_SIZE"])
    group = Group.of_workers(workers, int(os.environ["RANK"]))

    async def no_service(port: Port, record: object) -> None:
        return None

    job = Job(workers, 0, lambda context: None, no_service, lambda name: True)
    with enter(job, lambda event: None, joining=Joining(wiring=Wiring(lanes=lanes, fewest_lanes=min(lanes, options.fewest)))) as joined:
        count = 0

        def topic() -> str:
            nonlocal count
            count += 1
            return str(count)

        def agree(mine: float) -> float:
            found = joined.context.perform(all_gather(joined.context.port, group, (torch.tensor([mine], dtype=torch.float64),), topic()))
            return max(float(packet[0]) for packet in found)

        return measured(
            lambda tensor: joined.context.perform(algorithm.reduce(joined.context.port, group, tensor, topic())),
            agree,
            value,
            options.rounds,
            options.pause,
        )


def with_gloo(options: argparse.Namespace, value: Tensor) -> list[float]:
    """All-reduces by torch.distributed."""
    where = f"tcp://{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=workers, timeout=timedelta(seconds=120))

    def agree(mine: float) -> float:
        told = torch.tensor([mine], dtype=torch.float64)
        distributed.all_reduce(told, distributed.ReduceOp.MAX)
        return float(told)

    def reduce(tensor: Tensor) -> Tensor:
        total = tensor.clone()
        distributed.all_reduce(total)
        return total

    try:
        return measured(reduce, agree, value, options.rounds, options.pause)
    finally:
        distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=float, default=1.0, help="of the tensor, 10^6 bytes each")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of silence before each round")
    parser.add_argument("--lanes", type=int, default=Wiring().lanes, help="most connections for each direction of each pair")
    parser.add_argument("--fewest", type=int, default=1, help="lanes, even where the path needs none")
    parser.add_argument("--bandwidth", type=float, help="of the line, bits per second")
    parser.add_argument("--latency", type=float, default=0.0, help="of the line, seconds, one way")
    options = parser.parse_args()
    torch.set_num_threads(1)
    value = torch.arange(int(options.megabytes * 250_000), dtype=torch.float32) % 1000
    runs = {"gloo": with_gloo(options, value)}
    for algorithm in (Ring(), Direct()):
        for lanes in sorted({1, options.lanes}):
            runs[f"{algorithm} with {lanes} lane{'s' if lanes > 1 else ''}"] = with_polyrhythm(algorithm, lanes, options, value)
    if int(os.environ["RANK"]) == 0:
        report(options, runs, value.numel() * 4)


def report(options: argparse.Namespace, runs: dict[str, list[float]], nbytes: int) -> None:
    """Print the JSON object and the table."""
    workers = int(os.environ["WORLD_SIZE"])
    bound = 2 * options.latency + 2 * (1 - 1 / workers) * nbytes * 8 / options.bandwidth if options.bandwidth else None
    found = {name: {"median": statistics.median(seconds), "least": min(seconds), "most": max(seconds)} for name, seconds in runs.items()}
    print(json.dumps({"workers": workers, "nbytes": nbytes, **vars(options), "bound": bound, "seconds": found}))
    print("| all-reduce | median ms | least | most | of gloo | of the bound |\n| --- | --: | --: | --: | --: | --: |")
    for name, row in found.items():
        times = " | ".join(f"{row[key] * 1000:.1f}" for key in ("median", "least", "most"))
        of_gloo = row["median"] / found["gloo"]["median"]
        of_bound = f"{row['median'] / bound:.2f}" if bound else ""
        print(f"| {name} | {times} | {of_gloo:.2f} | {of_bound} |", flush=True)


if __name__ == "__main__":
    main()
