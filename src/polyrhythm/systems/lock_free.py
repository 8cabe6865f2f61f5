"""Nobody locks, and some of what is written may be lost."""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.merge import Sum
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.topology import FixedPointMemory


def buckwild(bits: int = 8, headroom: float = 4.0, least: float = 1.0) -> Strategy:
    """As hogwild, with weights of 8 or 16 bits and unbiased rounding (Buckwild!; De Sa, Zhang, Olukotun, Ré, NIPS 2015, section 3).

    A worker subtracts what its optimizer did from the shared weights, rounded at random to a whole multiple of the tensor's scale, so that
    the expectation is exact, and reads all of them. A scale is a power of two for which `headroom` times a tensor's largest first weight,
    and `least`, are in range. Rounding to the nearest multiple instead, `FixedPointMemory(rounding=NearestRounding())`, loses every change
    of less than half a multiple. Every step counts in full; optimizer state stays with each worker, in full precision. (The paper's data
    are in few bits too; here a job decides about its data.)
    """
    memory = FixedPointMemory(bits, headroom=headroom, least=least)
    return Strategy(name="buckwild", consistency=LocalSteps(1, Asynchronous()), topology=memory, merge=Sum())
