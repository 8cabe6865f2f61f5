"""Push and pull between a worker and a server of one host, against the bare transport: an echo over a local socket.

    python benchmarks/push_pull.py [--kib 4 64 1024 4096 65536] [--rounds 5] [--json FILE]

The worker sends a tensor and waits for one of the same size, as `Server` does in every round. `socket` is the same echo with nothing
but sendmsg and recv_into over AF_UNIX between two processes, in pieces of at most 4 MiB. Medians of the
rounds, the least and the most of them; bandwidth counts both ways.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import time
from pathlib import Path

import torch

import polyrhythm as pr
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port

PIECE = 4 << 20
SECONDS = 0.3


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kib", type=int, nargs="+", default=[4, 64, 1024, 4096, 65536])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[int, dict[str, list[float]]] = {size: {"polyrhythm": [], "socket": []} for size in given.kib}
    for _ in range(given.rounds):
        for size, seconds in zip(given.kib, ours(given.kib), strict=True):
            found[size]["polyrhythm"].append(seconds)
        for size in given.kib:
            found[size]["socket"].append(bare(size * 1024))
    print("| size | polyrhythm | socket | of the socket's time |\n|---|---|---|---|")
    for size, ways in found.items():
        cells = " | ".join(cell(ways[way], 2 * size * 1024) for way in ("polyrhythm", "socket"))
        ratios = [x / y for x, y in zip(ways["polyrhythm"], ways["socket"], strict=True)]
        print(f"| {size:,} KiB | {cells} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")
    if given.json:
        given.json.write_text(json.dumps({"torch": torch.__version__, "seconds": found}, indent=2) + "\n")


def cell(seconds: list[float], nbytes: int) -> str:
    """The median of some rounds with their spread, and the bandwidth that it is."""
    median = statistics.median(seconds)
    return f"{median * 1e6:,.0f} ({min(seconds) * 1e6:,.0f} to {max(seconds) * 1e6:,.0f}) µs, {nbytes / median / 1e9:.2f} GB/s"


def repeats(once: float) -> int:
    """How often to call what takes `once` seconds."""
    return max(2, min(1000, int(SECONDS / once)))


def ours(kib: list[int]) -> list[float]:
    """The median echo of each size through Polyrhythm's processes."""

    async def echo(port: Port, tensor: torch.Tensor) -> torch.Tensor:
        await port.send("server/0", Message("push", tensors=(tensor,)))
        delivery = await port.receive("pull", "server/0")
        assert delivery is not None
        return delivery.message.tensors[0]

    async def serve(port: Port, record: Recorder) -> None:
        while True:
            delivery = await port.receive("push", "worker/0")
            assert delivery is not None
            if not delivery.message.tensors:
                return
            await port.send("worker/0", Message("pull", tensors=delivery.message.tensors))

    async def part(port: Port) -> None:
        await port.send("server/0", Message("push"))

    def program(stage: WorkerContext) -> Message:
        medians = []
        for size in kib:
            tensor, times = torch.ones(size * 256), []
            stage.perform(echo(stage.port, tensor))
            began = time.perf_counter()
            stage.perform(echo(stage.port, tensor))
            for _ in range(repeats(time.perf_counter() - began)):
                began = time.perf_counter()
                stage.perform(echo(stage.port, tensor))
                times.append(time.perf_counter() - began)
            medians.append(statistics.median(times))
        stage.perform(part(stage.port))
        return Message("medians", tuple(medians))

    ending = pr.Processes().execute(Job(1, 1, program, serve, lambda name: True), lambda event: None)
    result = ending.results["worker/0"]
    assert result is not None
    return list(result.numbers)


def bare(nbytes: int) -> float:
    """The median echo over a local socket, with nothing around it."""
    here, there = socket.socketpair()
    buffer, into = bytearray(nbytes), memoryview(bytearray(nbytes))
    child = os.fork()
    if child == 0:
        here.close()
        while receive(there, into):
            send(there, into)
        os._exit(0)
    there.close()
    times = []
    send(here, memoryview(buffer))
    receive(here, into)
    began = time.perf_counter()
    send(here, memoryview(buffer))
    receive(here, into)
    for _ in range(repeats(time.perf_counter() - began)):
        began = time.perf_counter()
        send(here, memoryview(buffer))
        receive(here, into)
        times.append(time.perf_counter() - began)
    here.close()
    os.waitpid(child, 0)
    return statistics.median(times)


def send(connection: socket.socket, data: memoryview) -> None:
    """All of it, piece by piece."""
    for start in range(0, len(data), PIECE):
        connection.sendall(data[start : start + PIECE])


def receive(connection: socket.socket, into: memoryview) -> bool:
    """As many bytes as `into` has room for; False at the end of the stream."""
    at = 0
    while at < len(into):
        count = connection.recv_into(into[at : at + PIECE])
        if not count:
            return False
        at += count
    return True


if __name__ == "__main__":
    main()
