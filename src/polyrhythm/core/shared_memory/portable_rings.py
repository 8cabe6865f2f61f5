"""Rings with numpy alone: the same steps as `_rings.c`, to be read next to it. x86-64 keeps the order of what is written."""

from __future__ import annotations

import ctypes
import time
from functools import partial

import numpy as np

from polyrhythm.core.shared_memory.ring_memory import HEADER, LINE, RingMemory

_NAP_SECONDS = 50e-6
_FUTEX = 202
"""The number of that call on x86-64."""
_WAKE, _EVERYONE = 1, 2**31 - 1
_WRITTEN, _WAITS, _READ = 0, 1, LINE // 8


class PortableRings:
    """The rings of `rank`."""

    def __init__(self, memory: RingMemory, rank: int) -> None:
        self._memory = memory  # keeps it mapped
        self._rank, self._capacity = rank, memory.capacity
        base = memory.memory.content
        bytes_ = base.numpy()
        self._bells = bytes_[: LINE * memory.ranks].view(np.uint32)[:: LINE // 4]
        self._rings = bytes_[LINE * memory.ranks :].reshape(memory.ranks, memory.ranks, -1)
        address = base.data_ptr()
        self._words = [ctypes.c_void_p(address + LINE * each) for each in range(memory.ranks)]
        self._wake = partial(ctypes.CDLL(None).syscall, ctypes.c_long(_FUTEX))

    def begin(self, receiver: int, tag: int, address: int, nbytes: int, /) -> int:
        words, content = self._ring(receiver, self._rank)
        if self._room(words) < HEADER:
            words[_WAITS] = 1
            if self._room(words) < HEADER:
                return -1
        self._copy_in(content, int(words[_WRITTEN]), np.array([tag, nbytes], np.int64).view(np.uint8))
        words[_WRITTEN] += np.uint64(HEADER)
        self.call(receiver)
        return self.put(receiver, address, nbytes)

    def put(self, receiver: int, address: int, nbytes: int, /) -> int:
        words, content = self._ring(receiver, self._rank)
        given, gone = _view(address, nbytes), 0
        while gone < nbytes:
            n = min(nbytes - gone, self._room(words))
            if n == 0:
                words[_WAITS] = 1
                n = min(nbytes - gone, self._room(words))
            if n == 0:
                break
            self._copy_in(content, int(words[_WRITTEN]), given[gone : gone + n])
            gone += n
            words[_WRITTEN] += np.uint64(n)
            self.call(receiver)
        return gone

    def head(self, sender: int, /) -> tuple[int, int] | None:
        words, content = self._ring(self._rank, sender)
        if int(words[_WRITTEN]) - int(words[_READ]) < HEADER:
            return None
        header = np.empty(HEADER, np.uint8)
        self._copy_out(content, int(words[_READ]), header)
        tag, nbytes = header.view(np.int64).tolist()
        return tag, nbytes

    def skip(self, sender: int, /) -> None:
        self._take(sender, np.empty(HEADER, np.uint8))

    def get(self, sender: int, address: int, nbytes: int, /) -> int:
        return self._take(sender, _view(address, nbytes))

    def calls(self) -> int:
        return int(self._bells[self._rank])

    def call(self, rank: int, /) -> None:
        # two that call at once may count one call: who waits looks again after a nap
        self._bells[rank] += np.uint32(1)
        self._wake(self._words[rank], _WAKE, _EVERYONE, None)

    def wait(self, seen: int, seconds: float, /) -> None:
        if self.calls() == seen:
            time.sleep(min(_NAP_SECONDS, max(0.0, seconds)))

    def _take(self, sender: int, into: np.ndarray) -> int:
        words, content = self._ring(self._rank, sender)
        n = min(len(into), int(words[_WRITTEN]) - int(words[_READ]))
        if n:
            self._copy_out(content, int(words[_READ]), into[:n])
            words[_READ] += np.uint64(n)
            if words[_WAITS]:
                words[_WAITS] = 0
                self.call(sender)
        return n

    def _ring(self, receiver: int, sender: int) -> tuple[np.ndarray, np.ndarray]:
        whole = self._rings[receiver, sender]
        return whole[: 2 * LINE].view(np.uint64), whole[2 * LINE :]

    def _room(self, words: np.ndarray) -> int:
        return self._capacity - (int(words[_WRITTEN]) - int(words[_READ]))

    def _copy_in(self, content: np.ndarray, at: int, given: np.ndarray) -> None:
        start = at % self._capacity
        first = min(self._capacity - start, len(given))
        content[start : start + first] = given[:first]
        content[: len(given) - first] = given[first:]

    def _copy_out(self, content: np.ndarray, at: int, into: np.ndarray) -> None:
        start = at % self._capacity
        first = min(self._capacity - start, len(into))
        into[:first] = content[start : start + first]
        into[first:] = content[: len(into) - first]


def _view(address: int, nbytes: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)) if nbytes else np.empty(0, np.uint8)
