"""Partial exchange among peers, adapted to the bandwidth of their links."""

from __future__ import annotations

from polyrhythm.codec import ErrorFeedback, MaxN, Ranges
from polyrhythm.consistency import Asynchronous, Bounded
from polyrhythm.controllers import BatchShares, BestWorker, LinkRanges, Several, SharedRanges, StepBytes
from polyrhythm.core.protocols.controller import Controller, Fixed
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import BatchWeighted, Mean
from polyrhythm.shuffle import OwnPace
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import KnowledgeTransfer, LinkExchange, PartialExchange


@system(Family.ADAPTIVE_PEERS, "(P − 1) M / p in P (P − 1) messages, p being each worker's partitions", partitions="parts")
def ako(parts: int | None = None, slack: int | None = None) -> Strategy:
    """Partial gradient exchange without servers (Ako; Watcharapichat et al., SoCC 2016; TF.AKO).

    A worker steps on its own gradient whole, and sends all others one of p ranges of what has accrued, in turn; what has come from them is
    merged at its next step. Each worker chooses p from its bandwidth and its speed, as in TF.AKO, unless `parts` are given. It waits
    for nobody, or with `slack` until the slowest is at most so many steps behind. Gradients count 1 / P each.
    """
    return Strategy(
        name="ako",
        consistency=Asynchronous() if slack is None else Bounded(slack),
        topology=PartialExchange(),
        codec=Ranges(4 if parts is None else parts),
        merge=Mean(),
        controller=SharedRanges() if parts is None else Fixed(),
    )


@system(Family.ADAPTIVE_PEERS, "at most (P − 1) M / p in P (P − 1) messages, p being the partitions for each link", partitions="parts")
def hong_chandra(parts: int | None = None) -> Strategy:
    """Partial gradients over wide-area links, of a size for each (Hong and Chandra, 2018).

    As `ako`, but each receiver has separate packets: their size follows the bandwidth of its link and the worker's speed, and where a
    link is busy, what is computed meanwhile goes with the next packet. `parts` are the same for all links where they are given. The
    paper also scales contributions by the speed of their workers, which is the number of their gradients here.
    """
    return Strategy(
        name="hong-chandra",
        consistency=Asynchronous(),
        topology=LinkExchange(),
        codec=Ranges(4 if parts is None else parts),
        merge=Mean(),
        controller=LinkRanges() if parts is None else Fixed(),
    )


@system(
    Family.ADAPTIVE_PEERS,
    "8 bytes for each element within N % of its tensor's largest, N being that of the link, in at most P (P − 1) messages",
    transfer="transfer_period",
)
def dlion(percent: float | None = None, slack: int = 5, even: bool = False, transfer_period: int | None = 100) -> Strategy:
    """Batches by speed and, for each link, the largest elements that it carries (DLion; Hong and Chandra, HPDC 2021).

    Of each tensor the elements within N % of its largest are sent, with N from the bandwidth of the link, unless `percent` gives it. A
    worker's batch is its share of P times the script's, by its speed, or with `even` the script's; the fastest waits where it is more than
    `slack` steps ahead. What is not sent is kept for later, of which the paper says nothing. A gradient counts 1 / P times its batch by the
    mean batch of all, so that the weights of a round sum to 1; the paper divides by the receiver's batch. Every `transfer_period` steps
    those take over three quarters of the best worker's weights whose `worker.report(loss=...)` is above its.
    """
    chosen: list[Controller] = [*([StepBytes()] if percent is None else []), *([] if even else [BatchShares()])]
    chosen += [] if transfer_period is None else [BestWorker(transfer_period)]
    return Strategy(
        name="dlion",
        consistency=Bounded(slack),
        topology=LinkExchange() if transfer_period is None else KnowledgeTransfer(every=transfer_period),
        codec=ErrorFeedback(MaxN(10.0 if percent is None else percent)),
        merge=BatchWeighted(),
        controller=Several(tuple(chosen)),
        shuffle=OwnPace(),
    )
