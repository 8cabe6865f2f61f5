"""Whether somebody else has written to the weights since the library last did, and what becomes of that."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np
import torch

from polyrhythm.core.protocols.topology import Agreement
from polyrhythm.core.protocols.traits import Pattern, Payload, TopologyTraits
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.watching.drift import is_put_back
from polyrhythm.errors import CompositionError

_WHOLE = 8
"""So many looks compare every element. A loop that writes after each step is found in these; later ones compare a sample."""
_SMALL = 1 << 14
"""Elements that every look compares."""
_SPREAD = 64
_CONSTRAIN = "for a bound on weights that is to hold after every step call worker.constrain(function) once."
_INTEGERS = {4: torch.int32, 8: torch.int64}
_TOGETHER = frozenset({Pattern.COLLECTIVE, Pattern.COMBINED, Pattern.SUMMED})
_MIXED = frozenset({Pattern.COLLECTIVE, Pattern.NEIGHBOURS, Pattern.SOME_PEERS})


class Written(Protocol):
    """What is known of who wrote to the weights."""

    def note(self) -> None:
        """What the weights are now is what the library made of them."""

    def changed(self) -> bool:
        """Whether they are something else than at the last `note`."""

    def touched(self) -> bool:
        """Whether torch has counted a write since the last `note`."""


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
        """What the weights are now is what the library made of them."""
        self.looks += 1
        self._seen = self._look(self.looks <= _WHOLE or self.parameters.flat.numel() <= _SMALL)

    def changed(self) -> bool:
        """Whether they are something else than at the last `note`."""
        seen = self._seen
        if seen is None:
            return False
        now = self._look(seen.total is not None)
        if seen.total is None and not self.parameters.flat.is_cpu:
            return now.versions != seen.versions
        if now.sample == seen.sample:
            if seen.total is None and now.versions != seen.versions:
                self.looks = 0  # something was written, and maybe put back: look closely for a while
            return now.total != seen.total
        dtype = self.parameters.flat.dtype
        return not is_put_back(_floats(now.sample, dtype), _floats(seen.sample, dtype))

    def touched(self) -> bool:
        """Whether torch has counted a write since the last `note`."""
        return self._seen is not None and self._versions() != self._seen.versions

    def _versions(self) -> int:
        return sum(parameter._version for parameter in self.parameters.parameters)

    def _look(self, whole: bool) -> _Seen:
        flat = self.parameters.flat
        versions = self._versions()
        total = int(flat.view(_INTEGERS[flat.element_size()]).sum(dtype=torch.int64).item()) if whole else None
        if not flat.is_cpu:
            return _Seen(versions, b"", total)
        if self._of is not flat or self._array is None:
            self._of, self._array = flat, flat.detach().numpy()
        return _Seen(versions, self._array[self._places].tobytes(), total)


class UnwatchedWeights:
    """Weights to which others write at any time: a write is a write, whoever makes it."""

    def note(self) -> None:
        """Nothing is kept."""

    def changed(self) -> bool:
        """Nobody could say."""
        return False

    def touched(self) -> bool:
        """As `changed`."""
        return False


def _floats(sample: bytes, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(sample), dtype=dtype) if sample else torch.zeros(0, dtype=dtype)


def keeps_writes(agreement: Agreement, traits: TopologyTraits) -> bool:
    """Whether weights that every worker writes between two steps, all alike, are from then on the weights of the run.

    They are where workers themselves hold the weights, and what others or an earlier step are still to bring does not count from the
    weights that were there before.
    """
    payload, pattern = agreement.payload, traits.pattern
    if payload is Payload.NOTHING:
        return True
    if traits.late or traits.on_top or agreement.local.traits.accumulates:
        return False
    if payload.is_gradient:
        return pattern in _TOGETHER
    if payload is Payload.UPDATE:
        return pattern in _TOGETHER and agreement.rule is None and agreement.codec.traits.verbatim
    return pattern in _MIXED


def begun_elsewhere(agreement: Agreement, traits: TopologyTraits) -> bool:
    """Whether others than the workers know the weights since worker.attach, and count from them: servers, hubs, shared memory, streams.

    Memory in which the parameters themselves lie is not elsewhere.
    """
    if agreement.payload is Payload.NOTHING:
        return False
    return traits.forwards or traits.pattern in {Pattern.SERVED, Pattern.STORED, Pattern.SHARED, Pattern.DATAGRAMS}


class Base(Protocol):
    """What a part of a replica counts from."""

    @property
    def clock(self) -> int:
        """Steps taken."""

    def count_from_here(self) -> None:
        """The weights as they are now are those that all agree on."""


class HandWrites:
    """What becomes of weights that the training function writes itself, between two steps, at the worker `name`.

    Before the first step they are what training begins with, where that is not already known elsewhere; later they stay where
    `keeps_writes` has them, and are refused where they would be lost. `early` is whether part of the next step was taken in backward().
    """

    def __init__(self, parameters: Parameters, agreement: Agreement, traits: TopologyTraits, name: str) -> None:
        self.watched: Written = UnwatchedWeights() if agreement.payload is Payload.NOTHING else WatchedWeights(parameters)
        self.keeps = keeps_writes(agreement, traits)
        self.begun_elsewhere = begun_elsewhere(agreement, traits)
        self.name = name
        self.resumed = False
        self.early = False
        self.changes = self.touches = self.last = 0
        """How often the training function wrote weights so that torch counted it and they changed, how often at all, and when last."""

    def note(self, resumed: bool = False) -> None:
        """The library has written the weights, as they were in a checkpoint or in a step."""
        self.resumed, self.early = resumed, False
        self.watched.note()

    def take(self, base: Base) -> None:
        """A step begins, and gradients were computed with the weights that there are. Raises CompositionError for a write that is lost."""
        if self.early:
            return
        touched = self.watched.touched()
        self.touches += touched
        if not self.watched.changed():
            if touched:
                self.watched.note()  # roundings of what was changed and put back add up else
            return
        if self.resumed:
            raise self._refused(
                "after it was resumed from a checkpoint",
                "the run would no longer be the one that the checkpoint is of: write them only `if worker.clock == 0`.",
            )
        if touched:
            self.changes, self.last = self.changes + 1, base.clock
        if base.clock == 0 and not self.begun_elsewhere:
            base.count_from_here()
        elif not self.keeps:
            raise self._refused(
                "between worker.attach and the first step" if base.clock == 0 else f"after step {base.clock}",
                "under this system what servers hold, or others send, overwrites that. Load weights before worker.attach; "
                + ("for a bound on weights take a system whose workers hold them (allreduce)." if self.begun_elsewhere else _CONSTRAIN),
            )

    def refuse_under_way(self, clock: int) -> None:
        """Part of a step is about to be taken late. Raises CompositionError for a write since the part before it."""
        if self.watched.changed():
            raise self._refused(
                f"after optimizer.step() had returned from step {clock}",
                "that step is taken later, on top of them. Load weights before worker.attach; " + _CONSTRAIN,
            )

    def refuse_end(self, clock: int) -> None:
        """The run ends. Raises CompositionError for a write since the last step that is not part of the result."""
        if not self.keeps and self.watched.changed():
            raise self._refused(
                f"after the last step, {clock}", "the run's result does not have that: call worker.finish() first, and write them after it."
            )

    def _refused(self, when: str, why: str) -> CompositionError:
        return CompositionError(f"The weights were written by hand at {self.name}, {when}, and {why}")


def sampled_places(parameters: Parameters) -> np.ndarray:
    """Places in the vector: some of every tensor, and some spread over all."""
    sizes = [parameter.numel() for parameter in parameters.parameters]
    ends = list(accumulate(sizes))
    places = {place for end, size in zip(ends, sizes, strict=True) if size for place in (end - size, end - 1 - size // 2, end - 1)}
    total = ends[-1] if ends else 0
    places |= {k * total // _SPREAD for k in range(_SPREAD) if total}
    return np.array(sorted(places), dtype=np.int64)
