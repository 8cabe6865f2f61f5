"""Collectives of a group of workers through memory that they share, where all of them are on one host."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from polyrhythm.core.kernel.effects import NativeCollective, NativeReduce, NativeReduceInPlace
from polyrhythm.core.processes.collectives.members import WaitedMembers
from polyrhythm.core.processes.collectives.traffic import CountTraffic
from polyrhythm.core.shared_memory import Disagreement, PieceGroup


class PiecewiseCollectives:
    """One of `members`' part in the collectives of their `group`, which makes no sums of exchanges. `add` counts what messages would be."""

    def __init__(self, group: PieceGroup, members: Sequence[str], add: CountTraffic) -> None:
        self._group = group
        self._members = WaitedMembers(group, members)
        self._add = add

    def collective(self, effect: NativeCollective) -> bool | None:
        """True when it is made; False where members have called different ones."""
        self._add(*effect.traffic)
        try:
            effect.make(self._group)
        except Disagreement:
            return False
        except ConnectionAbortedError as problem:
            raise self._members.named(problem) from None
        return True

    def reduce(self, effect: NativeReduce) -> Tensor | None:
        """Always None."""
        return None

    def reduce_in_place(self, effect: NativeReduceInPlace) -> bool | None:
        """Always None."""
        return None

    def peer_gone(self, name: str, how: str) -> None:
        """Wait for the actor `name` no longer, if it is a member; what it had given before still counts."""
        self._members.lose(name, how)

    def give_up(self) -> None:
        """Stop waiting for the others."""
        self._members.lose_all()

    @property
    def moved(self) -> int:
        return self._group.moved
