"""Lock-free methods, in which some updates may be lost."""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import Sum
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import FixedPointMemory, LossyStreams


@system(Family.ASYNCHRONOUS_PEERS, "nothing")
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


@system(
    Family.ASYNCHRONOUS_PEERS,
    "P (P − 1) M in datagrams, at most; less where steps are faster than the network; at the end 3 (P − 1) M",
    nbytes="piece_bytes",
    refresh="refresh_period",
)
def dogwild(piece_bytes: int = 8192, refresh_period: int = 4) -> Strategy:
    """Weights that workers stream to each other in datagrams, which may be lost (Dogwild!; Noel, Osindero, NIPS workshop, 2014).

    A worker's own optimizer steps on its own weights. At the same time a loop sends all others, one range of `piece_bytes` after another,
    what was done to it since it was last sent; every `refresh_period`-th round the range's owner sends the weights themselves. Nobody sends
    a lost datagram again, nor waits for one. Every update counts in full. Optimizer state stays with each worker. At the end all get the
    owners' weights; these record how many datagrams did not come, and how much of others' updates was lost with them. (The paper's senders
    are threads next to the solver which read the weights at any moment, and its datagrams raw Ethernet or UDP multicast.)
    """
    return Strategy(
        name="dogwild", consistency=LocalSteps(1, Asynchronous()), topology=LossyStreams(piece_bytes, refresh_period), merge=Sum()
    )
