"""One host of the race: it holds the libraries in memory and runs heat after heat, each in a forked process of its own.

Host 0 decides when a heat is over and tells the others; nobody starts the next before all have ended theirs. So libraries are
imported once, not once a heat, and what a heat leaves behind dies with its processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta

import torch
import torch._dynamo  # what the first step of an optimizer imports, in seconds
import torch.distributed as dist

import polyrhythm.core.training.join  # noqa: F401  what pr.join imports
from polyrhythm.core.processes.system.prctl import die_with_parent
from racing import ours, rivals
from racing.task import TASKS, Found, Heat, Seat, Way, train

MARK = "HEAT "
SLACK = 45.0
"""Seconds beyond its cap after which a heat is ended: rendezvous, evaluations, and a last step that hangs."""
_PORTS = 4
_AFTERMATH = 1.0
"""Seconds in which a worker may fail because worker 0 has ended, which is no failure."""
_OVER, _FAILED = b".", b"!"
WAYS = {**rivals.WAYS, **ours.WAYS}


def way_of(name: str) -> Way:
    """One of the ways, or a published system with its options, such as "adpsgd period=64"."""
    return WAYS[name] if name in WAYS else ours.published(name)


def serve(heats: Sequence[Heat]) -> None:
    """Run all heats on this host, whose place is in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""
    torch.set_num_threads(1)
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for beginning in {heat.way.split("-")[0] for heat in heats} & rivals.LIBRARIES.keys():
        os.environ["DS_ACCELERATOR"] = "cpu"
        __import__(rivals.LIBRARIES[beginning])
    for name in {heat.task for heat in heats}:
        TASKS[name].data()
    links = _meet(rank, workers, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    for number, heat in enumerate(heats):
        run(heat, int(os.environ["MASTER_PORT"]) + _PORTS * (number + 1), rank, links)
        _together(rank, links)


def run(heat: Heat, port: int, rank: int, links: Sequence[socket.socket]) -> None:
    """One heat: on host 0 until its process answers, on the others until they are told that it is over."""
    told, tell = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        os.setsid()
        die_with_parent(parent)
        os.close(told)
        _child(heat, port, tell)
    os.close(tell)
    waited = select.select([told, *links], [], [], heat.cap + SLACK)[0]
    answer = os.read(told, 1 << 20).decode() if told in waited else ""
    if rank == 0:
        reason = "a worker on another host failed" if waited else "no answer in time"
        found = json.loads(answer) if answer else {**asdict(Found()), "error": reason}
        print(MARK + json.dumps({**asdict(heat), **found}), flush=True)
        _tell(links)
    else:
        if told in waited and not select.select(links, [], [], _AFTERMATH)[0]:
            print(f"{heat.way} failed on this host: {answer}", file=sys.stderr, flush=True)
            links[0].sendall(_FAILED)
        _hear(links)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(told)


def _child(heat: Heat, port: int, tell: int) -> None:
    """Train, answer, and go without a word: what the way would do at its end is not part of the race."""
    try:
        rank, workers = int(os.environ["RANK"]), 1 if heat.way == rivals.ALONE else int(os.environ["WORLD_SIZE"])
        if rank >= workers:
            time.sleep(heat.cap + SLACK)
        os.environ.update(MASTER_PORT=str(port), LOCAL_RANK="0")
        host = os.environ["MASTER_ADDR"]
        store = dist.TCPStore(host, port + 1, workers, rank == 0, timedelta(seconds=60), wait_for_workers=True)

        def meet() -> None:
            if store.add("ready", 1) == workers:
                store.set("go", "")
            store.wait(["go"])

        def share(mine: str) -> str:
            if rank == 0:
                store.set("said", mine)
            return store.get("said").decode()

        found = train(way_of(heat.way), heat, Seat(TASKS[heat.task], rank, workers, heat.seed, share, meet))
        answer = json.dumps(asdict(found))
    except BaseException as problem:
        said = f"{type(problem).__name__}: {problem}"[:300]
        answer = json.dumps({**asdict(Found()), "error": said, "trace": traceback.format_exc()})
    with contextlib.suppress(BrokenPipeError):
        os.write(tell, answer.encode())
    sys.stderr.flush()
    os._exit(0)


def _meet(rank: int, workers: int, host: str, port: int) -> list[socket.socket]:
    """Host 0's connections to the others; another host's to host 0."""
    if rank == 0:
        with socket.create_server((host, port)) as door:
            return [door.accept()[0] for _ in range(workers - 1)]
    until = time.monotonic() + 120
    while True:
        try:
            return [socket.create_connection((host, port))]
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _together(rank: int, links: Sequence[socket.socket]) -> None:
    """Return when all hosts have ended their processes."""
    if rank:
        _tell(links)
        _hear(links)
    else:
        _hear(links)
        _tell(links)


def _tell(links: Sequence[socket.socket]) -> None:
    for link in links:
        link.sendall(_OVER)


def _hear(links: Sequence[socket.socket]) -> None:
    for link in links:
        while (word := link.recv(1)) != _OVER:  # a failure that was told after the heat was over is passed by
            if not word:
                raise SystemExit("another host of the race has gone")
