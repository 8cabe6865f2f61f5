"""Sums over a group of workers through memory that they share, where all of them are on one host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import NativeCollective, NativeReduce, NativeReduceInPlace, NativeSum, Schedule
from polyrhythm.core.processes.collectives.members import WaitedMembers
from polyrhythm.core.processes.collectives.traffic import CountTraffic, TrafficCounter
from polyrhythm.core.shared_memory import MemoryGroup


class SharedMemoryReducer:
    """One of `members`' part in their `group`. `add` counts what the messages of the schedule would have been.

    If it `restores`, what was to be summed in place is as it was after a sum that was given up: another crew will sum it.
    """

    def __init__(self, group: MemoryGroup, members: Sequence[str], add: CountTraffic, restores: bool = False) -> None:
        self._group = group
        self._members = WaitedMembers(group, members)
        self._traffic = TrafficCounter(add)
        self._restores = restores
        self._kept = torch.empty(0)
        self._orders: dict[tuple[Schedule, int], bool | None] = {}

    def reduce(self, effect: NativeReduce) -> Tensor | None:
        """The sum, in the order of its schedule."""
        rotated = self._rotated(effect, effect.value.nbytes)
        if rotated is None or effect.value.device.type != "cpu":
            return None
        self._traffic.count(effect, effect.value.shape, effect.value.dtype)
        value = effect.value.contiguous()
        total = torch.empty_like(value)
        try:
            self._group.reduce(value, total, rotated=rotated)
        except ConnectionAbortedError as problem:
            raise self._members.named(problem) from None
        return total

    def reduce_in_place(self, effect: NativeReduceInPlace) -> bool | None:
        """Replace the parts of `effect` by their sum; of parts on the CPU nothing is copied but what the others must see."""
        numel, first = sum(map(Tensor.numel, effect.parts)), effect.parts[0]
        rotated = self._rotated(effect, numel * first.element_size())
        if rotated is None:
            return None
        self._traffic.count(effect, torch.Size([numel]), first.dtype)
        here = list(map(Tensor.cpu, effect.parts))  # workers' models may be on devices of several kinds
        kept = self._room(numel, first.dtype) if self._restores and here[0] is first else None  # else they are copies
        try:
            self._group.reduce_parts(here, divisor=effect.divisor, rotated=rotated, kept=kept)
        except ConnectionAbortedError as problem:
            raise self._members.named(problem) from None
        for part, own in zip(effect.parts, here, strict=True):
            if part is not own:
                part.copy_(own)
        return True

    def collective(self, effect: NativeCollective) -> bool | None:
        """Always None: these are sums of exchanges."""
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

    def _room(self, numel: int, dtype: torch.dtype) -> Tensor:
        """Room for what is kept, the same for each sum: memory that is new takes longer than the copy."""
        if self._kept.numel() < numel or self._kept.dtype != dtype:
            self._kept = torch.empty(numel, dtype=dtype)
        return self._kept[:numel]

    def _rotated(self, effect: NativeSum, nbytes: int) -> bool | None:
        """True if each part of a sum begins with its own rank, False if all begin with rank 0; None if the sum is left to messages."""
        if effect.group.members != self._members.names:
            return None
        key = (effect.schedule, nbytes)
        if key not in self._orders:
            self._orders[key] = _rotated(effect.schedule, len(self._members.names), nbytes)
        return self._orders[key]


def _rotated(schedule: Schedule, workers: int, nbytes: int) -> bool | None:
    firsts = [schedule.first(part, workers, nbytes) for part in range(workers)]
    if firsts == list(range(workers)):
        return True
    return False if all(first == 0 for first in firsts) else None
