"""The layout of a process group over hosts: who shares memory with whom, where every host has as many members."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from polyrhythm.core.processes.rendezvous.entrance import HOST
from polyrhythm.core.processes.transport.addresses import this_host
from polyrhythm.core.shared_memory import MemoryGroup
from polyrhythm.process_group.rendezvous import rendezvous
from polyrhythm.process_group.watchdog import Watchdog


@dataclass(frozen=True, slots=True)
class HostLayout:
    """Rank `rank` of members whose ranks in the job are `names`; `hosts` are the members of each host, all as many, if memory is shared.

    Then `memory` is that of this host, in which this rank has the number of its place in its row of `hosts`, and `watch` looks after it.
    """

    rank: int
    names: tuple[int, ...]
    hosts: tuple[tuple[int, ...], ...] = ()
    memory: MemoryGroup | None = None
    watch: Watchdog | None = None

    def give_up(self) -> None:
        """End the waits for other members of this host; from any thread."""
        if self.memory is not None:
            for rank in range(self.memory.ranks):
                self.memory.lose(rank)

    def close(self) -> None:
        """Give back what was needed."""
        if self.watch is not None:
            self.watch.close()


def layout_of(store: Store, rank: int, names: Sequence[int]) -> HostLayout:
    """That of a group whose members all call this with the same `store`."""
    store.set(f"host/{rank}", os.environ.get(HOST, "") or this_host())
    found: dict[bytes, list[int]] = {}
    for each in range(len(names)):
        found.setdefault(store.get(f"host/{each}"), []).append(each)
    hosts = tuple(map(tuple, found.values()))
    plain = HostLayout(rank, tuple(names))
    if len(hosts) == 1 or len(hosts[0]) == 1 or len({len(host) for host in hosts}) > 1:
        return plain
    mine = next(host for host in hosts if rank in host)
    shared = rendezvous(PrefixStore(f"within {mine[0]}", store), mine.index(rank), len(mine))
    store.set(f"shares/{rank}", shared.reason)
    reasons = [store.get(f"shares/{each}") for each in range(len(names))]
    if any(reasons) or shared.segment is None:
        return plain
    memory = MemoryGroup(shared.segment, shared.rank)
    watch = Watchdog(memory, shared, [names[each] for each in mine], lambda lost: None)
    return HostLayout(rank, tuple(names), hosts, memory, watch)
