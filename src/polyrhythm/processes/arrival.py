"""What joined processes settle as they come: whether they belong together, which devices they use, how they add up."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import version

import torch

from polyrhythm.errors import RunError
from polyrhythm.kernel.agreement import Facts, difference
from polyrhythm.kernel.job import Job
from polyrhythm.kernel.names import server, worker
from polyrhythm.processes.addresses import Address
from polyrhythm.processes.charges import Charge
from polyrhythm.processes.meeting import Meeting
from polyrhythm.processes.nccl import Nccl
from polyrhythm.processes.place import Place
from polyrhythm.processes.shared import SharedMemory
from polyrhythm.processes.stalls import say
from polyrhythm.processes.wire import VERSION
from polyrhythm.sharing import MemoryGroup, Segment, can_share


def compare(meeting: Meeting, facts: Facts, name: str) -> None:
    """Refuse ranks of different jobs; say so where only torch differs, which rounds in its own way."""
    meeting.alike({**facts, "version of Polyrhythm": version("polyrhythm"), "version of the wire format": str(VERSION)})
    found = difference(meeting.gather("torch", {"torch": str(torch.__version__)}))
    if found is not None and name == worker(0):
        say(f"{found}: they may round differently, and replicas that must be equal drift apart; that is found at the end.")


def everyone(job: Job) -> list[str]:
    """The names of all actors."""
    return [*(worker(rank) for rank in range(job.workers)), *(server(shard) for shard in range(job.servers))]


def device_of(place: Place) -> str:
    """The CUDA device of this process, if there is one for it, else the CPU."""
    return f"cuda:{place.local_rank}" if torch.cuda.is_available() and place.local_rank < torch.cuda.device_count() else "cpu"


def share_memory(meeting: Meeting, place: Place, table: Mapping[str, Address], charge: Charge) -> SharedMemory | None:
    """Sums through shared memory, if all workers are on one host and every one can open it."""
    rank, workers = place.rank, place.workers
    if workers < 2 or len({table[worker(each)].host for each in range(workers)}) > 1:
        return None
    with ExitStack() as stack:
        made = ""
        if rank == 0:
            segment = Segment.create(workers)
            stack.callback(segment.close)
            made = segment.path
        path = meeting.agree("memory", made)
        try:
            mine: Segment | None = Segment.open(path, workers)
        except RunError:
            mine = None
        if meeting.all_can("share memory", mine is not None and can_share()) and mine is not None:
            return SharedMemory(MemoryGroup(mine, rank), charge)
    return None


def by_nccl(meeting: Meeting, place: Place, ip: str, device: str, charge: Charge) -> Nccl:
    """Sums through NCCL; rank 0 offers the place where it meets."""
    with socket.create_server((ip, 0)) as free:
        proposal = f"{ip}:{free.getsockname()[1]}"
    return Nccl(place.rank, place.workers, meeting.agree("nccl", proposal), device, charge)
