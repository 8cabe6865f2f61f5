"""Only large elements are sent, from all workers to all, or to a server."""

from __future__ import annotations

from polyrhythm.codec import AdaptiveThreshold, ClippedFeedback, ErrorFeedback, Significant
from polyrhythm.consistency import Asynchronous, LocalSteps, SoftSync
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import Mean, Sum
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllToAll, Mirrors, Server


@system(
    Family.ASYNCHRONOUS_PEERS,
    "4 (P − 1) bytes for each element above tau of each worker, at most M / 16, in P (P − 1) messages",
    tau="threshold",
    fewest="min_ratio",
    most="max_ratio",
    every="clip_period",
)
def dl4j_sharing(
    threshold: float = 1e-3, min_ratio: float = 1e-4, max_ratio: float = 1e-2, quanta: float = 5.0, clip_period: int = 5
) -> Strategy:
    """Thresholded updates to all peers, with a threshold that adapts (Deeplearning4j Development Team; 2018, after Strom, 2015).

    As `strom`, but the threshold follows what is sent: where that is a smaller share of the elements than `min_ratio` it falls by 3.4 %,
    where a larger one than `max_ratio` it rises. Where more than one element in 16 is to be sent, all go in two bits each. Every
    `clip_period` steps the residual is clipped to ± `quanta` thresholds, and what that cuts off is lost. Each worker has its own threshold
    (Deeplearning4j averages them between epochs). A contribution counts 1 / P, so that P workers move about as far as one (there: in full).
    Nobody waits. Optimizer state stays with each worker.
    """
    codec = ClippedFeedback(AdaptiveThreshold(threshold, min_ratio, max_ratio), quanta, clip_period)
    return Strategy(name="dl4j-sharing", consistency=LocalSteps(1, Asynchronous()), topology=AllToAll(), codec=codec, merge=Mean())


@system(Family.ASYNCHRONOUS_SERVERS, "2 P M in 2 P S messages")
def actors(servers: int = 1) -> Strategy:
    """Asynchronous replicas of actors and a central server (Addair, Machine Learning Model Training with Actors, 2017).

    A server applies every gradient when it comes, by the workers' optimizer, and answers with the weights. A gradient counts 1 / P, so that
    P replicas move about as far as one (there: in full; compose with Sum() for that). Layers are no actors here: a replica's backward
    pass is torch's.
    """
    return Strategy(name="actors", consistency=Asynchronous(), topology=Server(servers), merge=Mean())


@system(Family.ASYNCHRONOUS_SERVERS, "P M for the pushes, and M for each response with a newer version: at most 2 P M in 2 P S messages")
def actors_softsync(groups: int = 2, servers: int = 1) -> Strategy:
    """The same server, but it waits for a subset of the replicas (Addair, Machine Learning Model Training with Actors, 2017).

    It merges ⌊P / groups⌋ gradients at a time, from whichever replicas, each of which counts 1 / P, and goes one step.
    """
    return Strategy(name="actors-softsync", consistency=SoftSync(groups), topology=Server(servers), merge=Mean())


@system(Family.ASYNCHRONOUS_PEERS, "8 (P − 1) bytes for each element that reaches tau, in P (P − 1) messages", tau="threshold")
def actors_decentralised(threshold: float = 0.01) -> Strategy:
    """Replicas that apply all of their own, and send others what is large (Addair, Machine Learning Model Training with Actors, 2017).

    A replica adds its optimizer's update to a residual. Elements of `threshold` or more go to all others with their full value, and their
    residual becomes zero; those add them to their weights. Its own update counts at home in full, when it is made, and not again when it
    is sent. Replicas are never made equal (the lossless residual bounds how far they are apart). The paper's is 1, of gradients of
    the XOR of two bits; here it is in units of weights.
    """
    codec = ErrorFeedback(Significant(threshold))
    return Strategy(name="actors-decentralised", consistency=LocalSteps(1, Asynchronous()), topology=Mirrors(), codec=codec, merge=Sum())
