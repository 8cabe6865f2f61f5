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
from polyrhythm.kernel.names import rank_of, server, worker
from polyrhythm.processes.collectives.nccl import Nccl, NcclStore
from polyrhythm.processes.collectives.reducer import GroupReducer
from polyrhythm.processes.collectives.shared_memory import SharedMemoryReducer
from polyrhythm.processes.collectives.traffic import CountTraffic
from polyrhythm.processes.rendezvous.rank_environment import RankEnvironment, own_ip
from polyrhythm.processes.rendezvous.rendezvous import Rendezvous
from polyrhythm.processes.runtime.stall_detection import notify
from polyrhythm.processes.transport.wire import VERSION
from polyrhythm.sharing import MemoryGroup, SharedSegment, can_share


def compare(rendezvous: Rendezvous, facts: Facts, name: str) -> None:
    """Refuse ranks of different jobs; print a warning where only torch differs, which rounds in its own way."""
    rendezvous.require_equal({**facts, "version of Polyrhythm": version("polyrhythm"), "version of the wire format": str(VERSION)})
    found = difference(rendezvous.gather("torch", {"torch": str(torch.__version__)}))
    if found is not None and name == worker(0):
        notify(f"{found}: they may round differently, so that replicas drift apart; their final weights are compared at the end.")


def everyone(job: Job) -> list[str]:
    """The names of all actors."""
    return [*(worker(rank) for rank in range(job.workers)), *(server(shard) for shard in range(job.servers))]


def servers_of(job: Job, rank: int) -> list[str]:
    """The servers that run beside the worker of `rank`."""
    homes = [home if home is not None else shard % job.workers for shard, home in enumerate(job.beside or (None,) * job.servers)]
    return [server(shard) for shard, home in enumerate(homes) if home == rank]


def device_of(environment: RankEnvironment) -> str:
    """The CUDA device of this process, if there is one for it, else the CPU."""
    return f"cuda:{environment.local_rank}" if torch.cuda.is_available() and environment.local_rank < torch.cuda.device_count() else "cpu"


def collectives(
    rendezvous: Rendezvous, environment: RankEnvironment, job: Job, hosts: Mapping[str, str], device: str, add: CountTraffic
) -> dict[str, GroupReducer]:
    """The ways to a sum of the groups that this worker is a member of, by their names; `hosts` has the host of each actor."""
    name = worker(environment.rank)
    if device != "cpu":
        store = NcclStore(_nccl_address(rendezvous, own_ip(environment)), environment.rank, device)
        return {group: Nccl(store, group, members, add) for group, members in job.summing.items() if name in members}
    found: dict[str, GroupReducer] = {}
    for group, members in job.summing.items():
        if name in members and len({hosts[member] for member in members}) == 1:
            memory = _share_memory(rendezvous, group, members, name)
            if memory is not None:
                found[group] = SharedMemoryReducer(MemoryGroup(memory, members.index(name)), members, add)
    return found


def _share_memory(rendezvous: Rendezvous, group: str, members: tuple[str, ...], name: str) -> SharedSegment | None:
    """The memory that the members of a group on this host share, if every one can open it; the first of them makes it."""
    ranks = [rank_of(member) for member in members]
    with ExitStack() as stack:
        made = ""
        if name == members[0]:
            segment = SharedSegment.create(len(members))
            stack.callback(segment.close)
            made = segment.path
        path = rendezvous.agree(f"memory/{group}", made, ranks[0])
        try:
            mine: SharedSegment | None = SharedSegment.open(path, len(members))
        except RunError:
            mine = None
        return mine if rendezvous.all_can(f"share memory/{group}", mine is not None and can_share(), ranks) else None


def _nccl_address(rendezvous: Rendezvous, ip: str) -> str:
    """Where the store of NCCL's communicators is, which rank 0 keeps."""
    with socket.create_server((ip, 0)) as free:
        proposal = f"{ip}:{free.getsockname()[1]}"
    return rendezvous.agree("nccl", proposal)
