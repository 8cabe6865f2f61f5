"""Payloads through shared memory: slots that one process writes and its peer reads.

A slot is a `memfd` that travels once, as a descriptor over the connection, and is used again after the receiver has let
go of what it held. It has no name anywhere, so that nothing can remain of it, however the processes end. The sender
copies a payload in; the receiver's tensors *are* the slot's memory, and the slot is free when the last of them is.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from polyrhythm.core.processes.system.seals import is_sealed, seal
from polyrhythm.core.processes.transport.wire import Shape, Slot, nbytes
from polyrhythm.errors import WireError

LEAST = 64 * 1024
"""Smaller payloads go through the socket: that is faster below about this size."""
_ALIGNMENT = 64
_MOST_DESCRIPTORS = 2
"""That no frame has named yet: with the end of one frame may come what the next brings."""
_MOST_SLOTS = 1024
"""The most slots for each peer: the system bounds how many pieces of memory a process may map."""


def _places(sizes: list[int]) -> tuple[list[int], int]:
    """The places of payloads of these sizes in a slot, each aligned, and the bytes they take together."""
    places, at = [], 0
    for size in sizes:
        places.append(at)
        at += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, at


def _map(descriptor: int, size: int) -> Tensor:
    """The memory behind `descriptor`, which may be closed then; Python's own mmap would keep one open for every slot."""
    return torch.from_file(f"/proc/self/fd/{descriptor}", shared=True, size=size, dtype=torch.uint8)


class Outgoing:
    """The slots that this process writes for one peer, at most `limit` bytes of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._memory: list[Tensor] = []
        self._free: dict[int, list[int]] = {}
        self._lent: set[int] = set()
        self._used = 0

    def write(self, tensors: tuple[Tensor, ...]) -> tuple[Slot, int] | None:
        """Copy `tensors` into a slot: the slot, and the descriptor of its memory if it is new, else -1. None if there is no room."""
        places, needed = _places([tensor.numel() * tensor.element_size() for tensor in tensors])
        size = max(LEAST, 1 << (needed - 1).bit_length())
        free, descriptor = self._free.setdefault(size, []), -1
        if free:
            number = free.pop()
        elif self._used + size > self._limit or len(self._memory) == _MOST_SLOTS:
            return None
        else:
            number, descriptor = len(self._memory), self._grow(size)
        self._lent.add(number)
        memory = self._memory[number]
        for tensor, place in zip(tensors, places, strict=True):
            flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
            memory[place : place + flat.numel()].copy_(flat)
        return Slot(number, descriptor >= 0), descriptor

    def release(self, number: float) -> None:
        """The peer has let go of a slot. Raises WireError if it did not have it."""
        if number not in self._lent:
            raise WireError(f"The peer gave back slot {number:g} of shared memory, which it did not have.")
        self._lent.remove(int(number))
        self._free[self._memory[int(number)].numel()].append(int(number))

    def _grow(self, size: int) -> int:
        descriptor = os.memfd_create("polyrhythm", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        seal(descriptor)
        self._memory.append(_map(descriptor, size))
        self._used += size
        return descriptor


class Incoming:
    """The slots that a peer writes for this process."""

    def __init__(self, release: Callable[[int], None]) -> None:
        """`release` is called with the number of a slot when it is free, from whichever thread drops its last tensor."""
        self._release = release
        self._memory: dict[int, Tensor] = {}
        self._descriptors: deque[int] = deque()

    def bring(self, descriptors: list[int]) -> None:
        """Descriptors have arrived, ahead of the frames that name them."""
        self._descriptors.extend(descriptors)
        if len(self._descriptors) > _MOST_DESCRIPTORS:
            raise WireError("A peer sent descriptors of shared memory that no frame names.")

    def read(self, slot: Slot, shapes: list[Shape]) -> tuple[Tensor, ...]:
        """Tensors of `shapes` that lie in `slot`, without a copy. Raises WireError if they cannot."""
        if slot.new:
            self._learn(slot.number)
        memory = self._memory.get(slot.number)
        places, needed = _places([nbytes(shape) for shape in shapes])
        if memory is None or not 0 < needed <= memory.numel():
            raise WireError(f"A frame points to slot {slot.number} of shared memory, which is not there or too small.")
        whole = memory.numpy()[:needed]
        weakref.finalize(whole, self._release, slot.number).atexit = False
        flat = torch.from_numpy(whole)
        parts = zip(shapes, places, strict=True)
        return tuple(flat[place : place + nbytes(shape)].view(shape[0]).view(shape[1]) for shape, place in parts)

    def close(self) -> None:
        """Drop what has arrived and was never named, and the memory of slots that are not used any more."""
        self._memory.clear()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _learn(self, number: int) -> None:
        if not self._descriptors or number in self._memory:
            raise WireError(f"A frame announces slot {number} of shared memory, which did not come with it or is known already.")
        descriptor = self._descriptors.popleft()
        try:
            if not is_sealed(descriptor):
                raise WireError("A peer sent shared memory that it could cut off.")
            self._memory[number] = _map(descriptor, os.fstat(descriptor).st_size)
        except (OSError, RuntimeError) as problem:
            raise WireError(f"A peer sent a descriptor that is not shared memory: {problem}") from problem
        finally:
            os.close(descriptor)
