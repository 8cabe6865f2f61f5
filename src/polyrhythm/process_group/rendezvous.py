"""The rendezvous of a process group: its members find the memory that they share, and agree on whether all of them have it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.shared_memory import RingMemory, SharedSegment, can_share
from polyrhythm.errors import RunError


@dataclass(frozen=True, slots=True)
class SharedMembership:
    """The memory of rank `rank` and the others, or None and the reason; `pids` are everyone's process numbers, in rank order."""

    segment: SharedSegment | None
    rings: RingMemory | None
    rank: int
    pids: tuple[int, ...] = ()
    reason: str = ""


def rendezvous(store: Store, rank: int, ranks: int) -> SharedMembership:
    """Rank 0 makes the memory and the others open it; a rank that cannot writes that to the `store`, and then no rank uses it."""
    segment, rings, reason = _enter(store, rank, ranks)
    store.set(f"member/{rank}", reason or str(os.getpid()))
    replies = [store.get(f"member/{each}").decode() for each in range(ranks)]
    refusals = [f"rank {each}: {reply}" for each, reply in enumerate(replies) if not reply.isdecimal()]
    if segment is not None and rings is not None:
        segment.close()
        rings.close()
    if refusals or segment is None:
        return SharedMembership(None, None, rank, reason="; ".join(refusals[:3]))
    return SharedMembership(segment, rings, rank, tuple(map(int, replies)))


def _enter(store: Store, rank: int, ranks: int) -> tuple[SharedSegment | None, RingMemory | None, str]:
    """The memory, or why not. What this host cannot do must not leave the others waiting for a reply."""
    if not can_share():
        if rank == 0:
            store.set("segment", "")
        return None, None, "no engine of shared memory was built for this machine"
    if rank == 0:
        try:
            made, rings = SharedSegment.create(ranks), RingMemory.create(ranks)
        except (OSError, RuntimeError, AttributeError) as problem:
            store.set("segment", "")
            return None, None, f"shared memory cannot be made here ({problem})"
        store.set("segment", f"{made.path}\n{rings.memory.path}")
        return made, rings, ""
    path, _, path_of_rings = store.get("segment").decode().partition("\n")
    if not path:
        return None, None, "rank 0 has none to share"
    try:
        return SharedSegment.open(path, ranks), RingMemory.open(path_of_rings, ranks), ""
    except RunError as problem:
        return None, None, str(problem)
