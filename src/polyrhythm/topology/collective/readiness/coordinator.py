"""Readiness by names: worker 0 collects what is ready at each worker, and tells all what is ready everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from polyrhythm.core.kernel.agreement import listed
from polyrhythm.core.kernel.events import Stalled
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, DeadlockError
from polyrhythm.topology.collective.readiness.protocol import Negotiator, ReadyTensor


@dataclass(frozen=True, slots=True)
@checked
class RootCoordinator:
    """Each cycle all send worker 0 the names of what has become ready, and get the list of what to sum (Horovod, 2018, section 3).

    2 (P - 1) messages a cycle over worker 0's line, whose text grows with workers and tensors. A tensor that some workers wait for longer
    than `notice` seconds is recorded with the workers that do not have it. With a `limit` the run fails with them after so many seconds;
    without one, as in Horovod, it continues for as long as the slowest worker takes.
    """

    notice: float = 60.0
    limit: float | None = None

    def __post_init__(self) -> None:
        if not self.notice > 0 or not (self.limit is None or self.notice <= self.limit):
            raise CompositionError(
                f"RootCoordinator(notice={self.notice}, limit={self.limit}) cannot tell a stall: give a notice above 0 seconds, and a "
                "limit that is no shorter, or None."
            )

    def negotiator(self, port: Port, group: Group) -> Negotiator:
        return _ByName(self, port, group)


@dataclass(slots=True)
class _Asked:
    """A requested tensor: since when, with which signature, and by which ranks. `noticed` once it counted as stalled."""

    since: float
    signature: str
    ranks: set[int] = field(default_factory=set)
    noticed: bool = False


class _ByName:
    """`reported` is what this worker has asked for and was not released; `asked`, at worker 0, what all have, the first first."""

    def __init__(self, settings: RootCoordinator, port: Port, group: Group) -> None:
        self.settings = settings
        self.port = port
        self.group = group
        self.cycle = 0
        self.reported: set[str] = set()
        self.asked: dict[str, _Asked] = {}

    async def negotiate(self, ready: Sequence[ReadyTensor]) -> list[str]:
        self.cycle += 1
        new = [each for each in ready if each.name not in self.reported]
        self.reported.update(each.name for each in new)
        released = await (self._collect(new) if self.group.is_first else self._ask(new))
        self.reported.difference_update(released)
        return released

    async def _ask(self, new: Sequence[ReadyTensor]) -> list[str]:
        root = self.group.first
        await self.port.send(root, Message(f"ready/{self.cycle}.{self.group.rank}", text=_text(new)))
        delivery = await self.port.receive(f"go/{self.cycle}", root)
        assert delivery is not None
        text = delivery.message.text
        return msgspec.json.decode(text, type=list[str]) if text else []

    async def _collect(self, new: Sequence[ReadyTensor]) -> list[str]:
        self._note(0, new)
        for rank in range(1, self.group.size):
            delivery = await self.port.receive(f"ready/{self.cycle}.{rank}", self.group.members[rank])
            assert delivery is not None
            text = delivery.message.text
            self._note(rank, msgspec.json.decode(text, type=list[ReadyTensor]) if text else [])
        released = [name for name, asked in self.asked.items() if len(asked.ranks) == self.group.size]
        for name in released:
            del self.asked[name]
        self._inspect()
        for name in self.group.members[1:]:
            await self.port.send(name, Message(f"go/{self.cycle}", text=_text(released)))
        return released

    def _note(self, rank: int, new: Sequence[ReadyTensor]) -> None:
        for name, signature in new:
            asked = self.asked.setdefault(name, _Asked(self.port.now(), signature))
            if asked.signature != signature:
                raise CompositionError(
                    f"{name} is {signature} at {self.group.members[rank]}, and {asked.signature} at "
                    f"{listed([self.group.members[k] for k in sorted(asked.ranks)])}: gradients must be alike at all workers."
                )
            asked.ranks.add(rank)

    def _inspect(self) -> None:
        """Record tensors that some have waited for too long; raise DeadlockError beyond the limit."""
        now = self.port.now()
        for name, asked in self.asked.items():
            waited = now - asked.since
            missing = [member for rank, member in enumerate(self.group.members) if rank not in asked.ranks]
            if waited >= self.settings.notice and not asked.noticed:
                asked.noticed = True
                self.port.record(Stalled(now, self.port.name, name, missing, waited))
            if self.settings.limit is not None and waited >= self.settings.limit:
                raise DeadlockError(
                    f"{name} has been ready for {waited:.0f} s at some workers and is not at {listed(missing)}: they are slower, compute "
                    "something else, or wait for others themselves. Every worker must compute the same gradients in a step; if they do, "
                    "give RootCoordinator a longer limit, or None."
                )


def _text(items: Sequence[object]) -> str:
    return msgspec.json.encode(items).decode() if items else ""
