"""The negotiation of joined processes as they come: whether they belong together, which devices they use, how they add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version

import torch

from polyrhythm.core.kernel.agreement import Facts, difference
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.names import FIRST, rank_of, server, worker
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.processes.collectives.nccl import Communicators, Nccl
from polyrhythm.core.processes.collectives.piecewise import PiecewiseCollectives
from polyrhythm.core.processes.collectives.reducer import GroupReducer
from polyrhythm.core.processes.collectives.shared_memory import SharedMemoryReducer
from polyrhythm.core.processes.collectives.traffic import CountTraffic
from polyrhythm.core.processes.rendezvous.rendezvous import WORKERS, Rendezvous
from polyrhythm.core.processes.transport.wire import VERSION
from polyrhythm.core.shared_memory import MemoryGroup, PieceGroup, SharedSegment, can_share
from polyrhythm.errors import RunError


def compare(rendezvous: Rendezvous, facts: Facts, name: str) -> None:
    """Refuse ranks of different jobs; print a warning where only torch differs, which rounds in its own way."""
    rendezvous.require_equal({**facts, "version of Polyrhythm": version("polyrhythm"), "version of the wire format": str(VERSION)})
    found = difference(rendezvous.gather("torch", {"torch": str(torch.__version__)}))
    if found is not None and name == FIRST:
        notify(f"{found}: they may round differently, so that replicas drift apart; their final weights are compared at the end.")


def everyone(job: Job) -> list[str]:
    """The names of all actors."""
    return [*(worker(rank) for rank in range(job.workers)), *(server(shard) for shard in range(job.servers))]


def servers_of(job: Job, rank: int) -> list[str]:
    """The servers that run with the worker of `rank`."""
    homes = [home if home is not None else shard % job.workers for shard, home in enumerate(job.colocated or (None,) * job.servers)]
    return [server(shard) for shard, home in enumerate(homes) if home == rank]


def device_of(rendezvous: Rendezvous) -> str:
    """The CUDA device of this process, if there is one for every process, else the CPU.

    Among the processes that see the same devices each takes the next, by rank. What a launcher says of local ranks is not asked: some count
    from 0 in every process, and some show each process its own devices only.
    """
    seen = devices()
    given = rendezvous.gather("devices", {WORKERS: str(rendezvous.workers), "devices": seen})
    if len(given) < rendezvous.workers:
        return "cpu"
    chosen = [choose([given[worker(other)]["devices"] for other in range(rank + 1)]) for rank in range(rendezvous.workers)]
    # where one has none, all do without: what goes between devices must find everybody there
    return "cpu" if None in chosen else f"cuda:{chosen[rendezvous.rank]}"


def devices() -> str:
    """The CUDA devices that this process sees, by names that no two devices have."""
    if not torch.cuda.is_available():
        return ""
    return " ".join(str(torch.cuda.get_device_properties(index).uuid) for index in range(torch.cuda.device_count()))


def choose(seen: Sequence[str]) -> int | None:
    """The index, among the devices that it sees, of the one that the last of several processes takes; None where there are not enough."""
    turn = seen[:-1].count(seen[-1])
    return turn if turn < len(seen[-1].split()) else None


def collectives(rendezvous: Rendezvous, job: Job, hosts: Mapping[str, str], device: str, add: CountTraffic) -> dict[str, GroupReducer]:
    """The ways to a sum of the groups that this worker is a member of, by their names; `hosts` has the host of each actor."""
    name = worker(rendezvous.rank)
    if device != "cpu":
        communicators = Communicators(rendezvous.torch_store, device)
        return {group: Nccl(communicators, group, members, add) for group, members in job.summing.items() if name in members}
    found: dict[str, GroupReducer] = {}
    for group, members in job.summing.items():
        if name in members and len({hosts[member] for member in members}) == 1:
            memory = _share_memory(rendezvous, group, members, name)
            if memory is not None:
                found[group] = SharedMemoryReducer(MemoryGroup(memory, members.index(name)), members, add)
    for group, members in job.gathering.items():
        if name in members and len({hosts[member] for member in members}) == 1:
            memory = _share_memory(rendezvous, group, members, name)
            if memory is not None:
                found[group] = PiecewiseCollectives(PieceGroup(memory, members.index(name)), members, add)
    return found


def _share_memory(rendezvous: Rendezvous, group: str, members: tuple[str, ...], name: str) -> SharedSegment | None:
    """The memory that the members of a group on this host share, if every one can open it; the first of them makes it."""
    ranks = [rank_of(member) for member in members]
    with ExitStack() as stack:
        made, (first, *_) = "", members
        if name == first:
            segment = SharedSegment.create(len(members))
            stack.callback(segment.close)
            made = segment.path
        path = rendezvous.agree(f"memory/{group}", made, ranks[0])
        try:
            mine: SharedSegment | None = SharedSegment.open(path, len(members))
        except RunError:
            mine = None
        return mine if rendezvous.all_can(f"share memory/{group}", mine is not None and can_share(), ranks) else None
