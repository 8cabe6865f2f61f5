"""Writes to the weights by others than the library since its last one, and their effect: kept, or refused.

Each part has a `HandWrites`, and notes there all writes of the library; constraints and deferred steps use it too.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.topology import Agreement
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.watching.drift import is_put_back
from polyrhythm.core.torch_private.one_process import version
from polyrhythm.errors import CompositionError

_WHOLE = 8
"""The first looks, which compare every element and find a loop that writes after each step; later ones compare a sample."""
_SMALL = 1 << 14
"""The number of elements up to which every look compares all."""
_AT_ONCE = 1 << 20
_SPREAD = 64
_CONSTRAIN = "for a bound on weights that is to hold after every step call worker.constrain(function) once."
_INTEGERS = {4: torch.int32, 8: torch.int64}


class Written(Protocol):
    """The facts about writes to the weights since the last `note`."""

    def note(self) -> None:
        """Note the current weights as those that the library wrote."""

    def compare(self) -> tuple[bool, bool]:
        """True if torch has counted a write since the last `note`; true if the weights differ from those at that moment."""


class _Seen(NamedTuple):
    versions: int
    sample: bytes
    total: int | None


class WatchedWeights:
    """Compares the weights in `parameters` with what they were.

    Tensors count writes to them, but not those through `.data`: so a few elements of every tensor are compared too, and in the first looks
    the sum of all bits. Weights that are the same again (an average that was put there for an evaluation) were not changed. On other
    devices than the CPU, where a look at elements would wait for the device, the counts alone are read later on.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.looks = 0
        self._places = sampled_places(parameters)
        self._array: np.ndarray | None = None
        self._of: torch.Tensor | None = None
        self._seen: _Seen | None = None

    def note(self) -> None:
        self.looks += 1
        self._seen = self._look(self.looks <= _WHOLE or self.parameters.flat.numel() <= _SMALL)

    def compare(self) -> tuple[bool, bool]:
        seen = self._seen
        if seen is None:
            return False, False
        now = self._look(seen.total is not None)
        touched = now.versions != seen.versions
        if seen.total is None and not self.parameters.flat.is_cpu:
            return touched, touched
        if now.sample == seen.sample:
            if seen.total is None and touched:
                self.looks = 0  # something was written, and maybe put back: look closely for a while
            return touched, now.total != seen.total
        dtype = self.parameters.flat.dtype
        return touched, not is_put_back(_floats(now.sample, dtype), _floats(seen.sample, dtype))

    def _look(self, whole: bool) -> _Seen:
        flat = self.parameters.flat
        versions = sum(map(version, self.parameters.parameters))
        total = _total(flat.view(_INTEGERS[flat.element_size()])) if whole else None
        if not flat.is_cpu:
            return _Seen(versions, b"", total)
        if self._of is not flat or self._array is None:
            self._of, self._array = flat, flat.detach().numpy()
        return _Seen(versions, self._array[self._places].tobytes(), total)


class UnwatchedWeights:
    """Weights to which other workers write at any time: nobody can tell the writes apart."""

    def note(self) -> None: ...

    def compare(self) -> tuple[bool, bool]:
        """False twice, because nobody could say."""
        return False, False


def _floats(sample: bytes, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(sample), dtype=dtype) if sample else torch.zeros(0, dtype=dtype)


def keeps_writes(agreement: Agreement, traits: TopologyTraits) -> bool:
    """True if weights that every worker writes alike between two steps become the weights of the run.

    They are where workers themselves hold the weights, and what others or an earlier step are still to bring does not count from the
    weights that were there before.
    """
    if agreement.payload is Payload.NOTHING:
        return True
    if Capability.OWN_WEIGHTS not in traits.provides or agreement.local.traits.accumulates:
        return False
    return agreement.payload is not Payload.UPDATE or (agreement.rule is None and agreement.codec.traits.verbatim)


def started_elsewhere(agreement: Agreement, traits: TopologyTraits) -> bool:
    """True if others than the workers hold the weights since worker.attach: servers, hubs, shared memory, streams.

    Memory in which the parameters themselves lie is not elsewhere.
    """
    return agreement.payload is not Payload.NOTHING and Capability.HELD_ELSEWHERE in traits.provides


class HandWrites:
    """Handles writes of the training function to the weights, between two steps, at the worker `name`.

    Before the first step they are what training begins with, where that is not already known elsewhere; later they stay where
    `keeps_writes` has them, and are refused where they would be lost. `early` is whether part of the next step was taken in backward().
    """

    def __init__(self, parameters: Parameters, agreement: Agreement, traits: TopologyTraits, name: str) -> None:
        self.watched: Written = UnwatchedWeights() if agreement.payload is Payload.NOTHING else WatchedWeights(parameters)
        self.keeps = keeps_writes(agreement, traits)
        self.started_elsewhere = started_elsewhere(agreement, traits)
        self.name = name
        self.resumed = False
        self.early = False
        self.changes = self.touches = self.last = 0
        """Writes that torch counted and that changed the weights, all counted writes, and the step of the last change."""

    def note(self, resumed: bool = False) -> None:
        """Note that the library has written the weights, as they were in a checkpoint or in a step."""
        self.resumed, self.early = resumed, False
        self.watched.note()

    def take(self, clock: int) -> bool:
        """Handle writes at the start of the step after `clock`, whose gradients were computed with them.

        True if training begins with the written weights, from which updates then count. Raises CompositionError for a lost write.
        """
        if self.early:
            return False
        touched, changed = self.watched.compare()
        self.touches += touched
        if not changed:
            if touched:
                self.watched.note()  # else the roundings of changes that were undone add up
            return False
        if self.resumed:
            raise self._refused(
                "after it was resumed from a checkpoint",
                "the run would no longer be the one that the checkpoint is of: write them only `if worker.clock == 0`.",
            )
        if touched:
            self.changes, self.last = self.changes + 1, clock
        first = clock == 0 and not self.started_elsewhere
        if not (first or self.keeps):
            raise self._refused(
                "between worker.attach and the first step" if clock == 0 else f"after step {clock}",
                "under this system what servers hold, or others send, overwrites that. Load weights before worker.attach; "
                + ("for a bound on weights take a system whose workers hold them (allreduce)." if self.started_elsewhere else _CONSTRAIN),
            )
        return first

    def refuse_under_way(self, clock: int) -> None:
        """Raise CompositionError, before a late part of a step, for a write since the part before it."""
        if self.watched.compare()[1]:
            raise self._refused(
                f"after optimizer.step() had returned from step {clock}",
                "that step is taken later, on top of them. Load weights before worker.attach; " + _CONSTRAIN,
            )

    def refuse_end(self, clock: int) -> None:
        """Raise CompositionError, at the end of the run, for a write since the last step that is not part of the result."""
        if not self.keeps and self.watched.compare()[1]:
            raise self._refused(
                f"after the last step, {clock}", "the run's result does not have that: call worker.finish() first, and write them after it."
            )

    def _refused(self, when: str, why: str) -> CompositionError:
        return CompositionError(f"The weights were written by hand at {self.name}, {when}, and {why}")


def _total(numbers: Tensor) -> int:
    """The sum in 64 bits, modulo 2 ** 64, part by part: torch would make a copy of all of them in that type."""
    found = sum(int(part.sum(dtype=torch.int64).item()) for part in torch.split(numbers, _AT_ONCE))
    return (found + 2**63) % 2**64 - 2**63


def sampled_places(parameters: Parameters) -> np.ndarray:
    """Indices of a sample of the vector: some of every tensor, and some spread over all. They must not be written to."""
    return _places_of(tuple(parameter.numel() for parameter in parameters.parameters))


@lru_cache(maxsize=64)
def _places_of(sizes: tuple[int, ...]) -> np.ndarray:
    ends = list(accumulate(sizes))
    places = {place for end, size in zip(ends, sizes, strict=True) if size for place in (end - size, end - 1 - size // 2, end - 1)}
    total = ends[-1] if ends else 0
    places |= {k * total // _SPREAD for k in range(_SPREAD) if total}
    return np.array(sorted(places), dtype=np.int64)
