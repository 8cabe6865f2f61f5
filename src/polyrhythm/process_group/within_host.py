"""The engine of a process group whose members share memory: all processes of one host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch.distributed as dist
from torch import Tensor

from polyrhythm.core.shared_memory import MemoryGroup
from polyrhythm.process_group.collectives import MemoryCollectives
from polyrhythm.process_group.rendezvous import SharedMembership
from polyrhythm.process_group.transfers import RingTransfers
from polyrhythm.process_group.watchdog import Watchdog


class WithinHost:
    """That of rank `shared.rank`; `names` are the members' ranks in the whole job, for messages, `seconds` the time for a wait."""

    def __init__(self, shared: SharedMembership, names: Sequence[int], seconds: float) -> None:
        assert shared.segment is not None
        assert shared.rings is not None
        self._memory = MemoryGroup(shared.segment, shared.rank)
        self._transfers = RingTransfers(shared.rings, shared.rank, names, seconds)
        self._watch = Watchdog(self._memory, shared, names, self._transfers.lose)
        self.collectives = MemoryCollectives(self._memory, self._transfers)

    def over(self, seconds: float, what: object) -> AbstractContextManager[None]:
        return self._watch.over(seconds, what)

    def send(self, tensor: Tensor, to: int, tag: int) -> dist.Work:
        return self._transfers.send(tensor, to, tag)

    def receive(self, tensor: Tensor, source: int | None, tag: int) -> dist.Work:
        return self._transfers.receive(tensor, source, tag)

    def abort(self) -> None:
        for rank in range(self._memory.ranks):
            self._memory.lose(rank)
            self._transfers.lose(rank)

    def close(self) -> None:
        self._watch.close()
        self._transfers.close()
