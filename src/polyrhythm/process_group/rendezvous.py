"""The rendezvous of a process group: its members find the memory that they share, and agree on whether all of them have it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.shared_memory import SharedSegment, can_share
from polyrhythm.errors import RunError


@dataclass(frozen=True, slots=True)
class SharedMembership:
    """The memory of rank `rank` and the others, or None and the reason; `pids` are everyone's process numbers, in rank order."""

    segment: SharedSegment | None
    rank: int
    pids: tuple[int, ...] = ()
    reason: str = ""


def rendezvous(store: Store, rank: int, ranks: int) -> SharedMembership:
    """Rank 0 makes the memory and the others open it; a rank that cannot writes that to the `store`, and then no rank uses it."""
    segment, reason = _enter(store, rank, ranks)
    store.set(f"member/{rank}", reason or str(os.getpid()))
    replies = [store.get(f"member/{each}").decode() for each in range(ranks)]
    refusals = [f"rank {each}: {reply}" for each, reply in enumerate(replies) if not reply.isdecimal()]
    if segment is not None:
        segment.close()
    if refusals or segment is None:
        return SharedMembership(None, rank, reason="; ".join(refusals[:3]))
    return SharedMembership(segment, rank, tuple(map(int, replies)))


def _enter(store: Store, rank: int, ranks: int) -> tuple[SharedSegment | None, str]:
    """The memory, or why not. What this host cannot do must not leave the others waiting for a reply."""
    if not can_share():
        if rank == 0:
            store.set("segment", "")
        return None, "no engine of shared memory was built for this machine"
    if rank == 0:
        try:
            made = SharedSegment.create(ranks)
        except (OSError, RuntimeError, AttributeError) as problem:
            store.set("segment", "")
            return None, f"shared memory cannot be made here ({problem})"
        store.set("segment", made.path)
        return made, ""
    path = store.get("segment").decode()
    if not path:
        return None, "rank 0 has none to share"
    try:
        return SharedSegment.open(path, ranks), ""
    except RunError as problem:
        return None, str(problem)
