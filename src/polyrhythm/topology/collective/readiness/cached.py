"""Readiness by bits: once a tensor has been released by its name, a bit stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.topology.collective.readiness.conjunction import Conjunction, at_root, by_doubling
from polyrhythm.topology.collective.readiness.coordinator import RootCoordinator
from polyrhythm.topology.collective.readiness.protocol import Negotiator, Readiness, ReadyTensor


@dataclass(frozen=True, slots=True)
@checked
class ResponseCache:
    """Bits to worker 0 and back instead of names, for up to `capacity` tensors (Horovod's response cache; Sergeev and Del Balso, 2018).

    `first` negotiates what is not cached yet. A tensor whose type or shape has changed at some worker is forgotten by all, and negotiated
    by its name again; so is one that has waited for `notice` seconds, which lets `first` say who does not have it.
    """

    first: Readiness = field(default_factory=RootCoordinator)
    capacity: int = 1024
    notice: float = 60.0

    def __post_init__(self) -> None:
        _check(self, self.capacity, self.notice)

    def negotiator(self, port: Port, group: Group) -> Negotiator:
        return _ByBit(self.first.negotiator(port, group), at_root, port, group, self.capacity, self.notice)


@dataclass(frozen=True, slots=True)
@checked
class BitVector:
    """The bits of `ResponseCache`, combined by an all-reduce instead of at a root (Laanait et al., 2019, arXiv:1909.11150).

    One bitwise AND of ready bits gives what is ready everywhere; in the same message goes the AND of valid bits, which is the OR of the
    invalid ones. ⌈log2 P⌉ messages of each worker a cycle.
    """

    first: Readiness = field(default_factory=RootCoordinator)
    capacity: int = 65_536
    notice: float = 60.0

    def __post_init__(self) -> None:
        _check(self, self.capacity, self.notice)

    def negotiator(self, port: Port, group: Group) -> Negotiator:
        return _ByBit(self.first.negotiator(port, group), by_doubling, port, group, self.capacity, self.notice)


def _check(settings: Readiness, capacity: int, notice: float) -> None:
    if capacity < 1 or not notice > 0:
        raise CompositionError(f"{settings} caches nothing: give a capacity of 1 or more, and a notice above 0 seconds.")


class _ByBit:
    """`slots` are the tensors that bits stand for, the same at all workers; a forgotten one leaves its place to the next.

    `since` is when each tensor became ready that is not released yet; `doubted` are those that have waited for too long.
    """

    def __init__(self, by_name: Negotiator, conjunction: Conjunction, port: Port, group: Group, capacity: int, notice: float) -> None:
        self.by_name = by_name
        self.conjunction = conjunction
        self.port = port
        self.group = group
        self.capacity = capacity
        self.notice = notice
        self.cycle = 0
        self.slots: list[ReadyTensor | None] = []
        self.since: dict[str, float] = {}
        self.doubted: set[str] = set()

    async def negotiate(self, ready: Sequence[ReadyTensor]) -> list[str]:
        self.cycle += 1
        self._watch(ready)
        by_name = {each.name: each for each in ready}
        hits = [slot is not None and by_name.get(slot.name) == slot and slot.name not in self.doubted for slot in self.slots]
        valid = [slot is None or hit or slot.name not in by_name for slot, hit in zip(self.slots, hits, strict=True)]
        cached = {slot.name for slot, hit in zip(self.slots, hits, strict=True) if slot is not None and hit}
        unknown = [each for each in ready if each.name not in cached]
        agreed = await self.conjunction(self.port, self.group, _packed([not unknown, *hits, *valid]), f"bits/{self.cycle}")
        all_known, *bits = _unpacked(agreed, 1 + 2 * len(hits))
        released = []
        for place, (there, kept) in enumerate(zip(bits[: len(hits)], bits[len(hits) :], strict=True)):
            slot = self.slots[place]
            if not kept:
                self.slots[place] = None
            elif there and slot is not None:
                released.append(slot.name)
        if not all_known:
            fresh = await self.by_name.negotiate(unknown)
            for name in fresh:
                self._remember(by_name[name])
            released += fresh
        for name in released:
            self.since.pop(name, None)
            self.doubted.discard(name)
        return released

    def _watch(self, ready: Sequence[ReadyTensor]) -> None:
        now = self.port.now()
        for name, _ in ready:
            if now - self.since.setdefault(name, now) >= self.notice:
                self.doubted.add(name)

    def _remember(self, each: ReadyTensor) -> None:
        if None in self.slots:
            self.slots[self.slots.index(None)] = each
        elif len(self.slots) < self.capacity:
            self.slots.append(each)


def _packed(bits: Sequence[bool]) -> Tensor:
    return torch.from_numpy(np.packbits(np.array(bits, dtype=bool)))


def _unpacked(packed: Tensor, count: int) -> list[bool]:
    return list(np.unpackbits(packed.numpy(), count=count).astype(bool))
