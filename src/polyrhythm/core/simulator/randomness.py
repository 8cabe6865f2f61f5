"""The global random generators of torch, numpy and `random`, kept apart for programs that share one process.

A virtual worker must draw the numbers that it would draw in a separate process. numpy takes 70 µs to return its state and 70 to set one;
so the raw words of its Mersenne twister are compared and copied directly, and the slow functions are left for states that have changed or
that keep back a second normal deviate, which the words do not contain. There are no words if the generator is no Mersenne twister, which
only `np.random.set_bit_generator` can cause.
"""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy as np
import torch

_NUMPY_BYTES = 625 * 4  # 624 words and a position, as numpy's mt19937_state lays them out


class Randomness:
    """The states of one program, as they were when it was last switched out."""

    __slots__ = ("_address", "_keeps_back", "_numpy", "_random", "_torch", "_words")

    def __init__(self) -> None:
        self._words = b""
        self._keeps_back = True
        self.save()

    def save(self) -> None:
        """Take the global states."""
        self._torch = torch.default_generator.get_state()
        self._random = random.getstate()
        found = np.random.get_bit_generator()  # type: ignore[attr-defined]
        self._address = int(found.ctypes.state_address) if type(found) is np.random.MT19937 else 0
        words = ctypes.string_at(self._address, _NUMPY_BYTES) if self._address else b""
        if self._keeps_back or words != self._words:
            self._numpy: dict[str, Any] = np.random.get_state(legacy=False)
            self._words = words
            self._keeps_back = not words or bool(self._numpy["has_gauss"])

    def load(self, current: Randomness) -> None:
        """Put the states back; `current` was the last to be saved, and nothing has drawn since."""
        torch.default_generator.set_state(self._torch)
        random.setstate(self._random)
        if self._keeps_back or current._keeps_back:
            np.random.set_state(self._numpy)
        elif self._words != current._words:
            ctypes.memmove(current._address, self._words, _NUMPY_BYTES)
