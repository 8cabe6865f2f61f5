"""Weights by key at servers, to which compressed gradients are pushed."""

from __future__ import annotations

from polyrhythm.codec import ErrorFeedback, Identity, TwoBit
from polyrhythm.consistency import Asynchronous
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import Mean
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import ByKey, Deferred, ServedSums, Server


@system(Family.SERVERS, "P B for the pushes and P M for the weights, in 2 P S messages: 2 P M without a codec")
def mxnet(servers: int = 1, threshold: float | None = None, largest: int = 1_000_000) -> Strategy:
    """Parameters in a store of keys that workers push to and pull from in lockstep (MXNet's `dist_sync`; Chen et al., 2015).

    Every tensor is a key and goes whole to one of the `servers`, those of `largest` elements or more in even parts to all. A server waits
    for every worker's push, runs the workers' optimizer on the mean (`update_on_kvstore`), and answers with the weights. With a
    `threshold` pushes take two bits an element, of which the rest stays with the worker (MXNet's `2bit`; its threshold is 0.5, of gradients
    that are summed over a batch; mean losses need one that is smaller by the size of the batch or more). Weights come back as they are.
    Pushes leave at `optimizer.step()`: only where workers run the optimizer do the first layers go first.
    """
    return Strategy(name="mxnet", topology=Server(servers, division=ByKey(largest)), codec=_two_bits(threshold))


@system(Family.SERVERS, "P B for the pushes and P M for the sums, in 2 P messages a tensor, and 2 P S for one that is cut")
def mxnet_worker_update(servers: int = 1, threshold: float | None = None, largest: int = 1_000_000) -> Strategy:
    """The same store, but servers only sum, and workers run the optimizer (MXNet's `update_on_kvstore=False`; Chen et al., 2015).

    Keys leave as backward() computes them, with a priority of minus their number: those of the first layers go first, and the next
    forward pass waits for its own keys alone. With a `threshold` pushes take two bits an element; sums come back as they are. Options as
    of `mxnet`.
    """
    topology = Deferred(ServedSums(servers, ByKey(largest)))
    return Strategy(name="mxnet-worker-update", topology=topology, codec=_two_bits(threshold))


@system(Family.ASYNCHRONOUS_SERVERS, "as `mxnet`")
def mxnet_async(servers: int = 1, threshold: float | None = None, largest: int = 1_000_000) -> Strategy:
    """The same store, but each push is applied when it arrives (MXNet's `dist_async`; Chen et al., 2015).

    A server runs the workers' optimizer on each gradient by itself, which counts 1 / P (there: in full; compose with Sum() for that), and
    answers with the weights: nobody waits for others. Options as of `mxnet`.
    """
    topology = Server(servers, division=ByKey(largest))
    return Strategy(name="mxnet-async", consistency=Asynchronous(), topology=topology, codec=_two_bits(threshold), merge=Mean())


def _two_bits(threshold: float | None) -> Codec:
    return Identity() if threshold is None else ErrorFeedback(TwoBit(threshold))
