"""Pipelined SGD: steps on gradients that were summed while later ones were computed."""

from __future__ import annotations

from polyrhythm.core.protocols.algorithm import Algorithm
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, CompressedRing, Delayed, EightBits, Ring, Truncated

_RINGS: dict[int, Algorithm] = {32: Ring(), 16: CompressedRing(Truncated()), 8: CompressedRing(EightBits())}


@system(Family.LATE, "2 (P − 1) M · bits / 32 in 2 P (P − 1) messages")
def pipe_sgd(width: int = 2, bits: int = 16, warmup: int = 10) -> Strategy:
    """Pipelined SGD with compression inside the ring (Pipe-SGD; Li, Yu, Li, Avestimehr, Kim, Schwing, NeurIPS 2018, arXiv:1811.03619).

    A step is taken on the mean gradient of `width` - 1 steps before, whose sum was under way meanwhile; a width of 1 is `allreduce`. Parts
    of sums are cut to 16 bits or rounded to 8 on each hop, or sent whole with 32 `bits`. The first `warmup` steps wait for their own sums
    (a few epochs in the paper), and the run ends with those that are outstanding. Every worker runs the same optimizer on the mean.
    """
    if bits not in _RINGS:
        raise CompositionError(f"pipe-sgd(bits={bits}) has no such words: give 32 (whole), 16 (truncated) or 8 (rounded).")
    return Strategy(name="pipe-sgd", topology=Delayed(AllReduce(_RINGS[bits]), width - 1, warmup))
