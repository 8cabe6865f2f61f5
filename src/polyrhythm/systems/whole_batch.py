"""Servers that hold the vectors of an optimizer of whole batches.

`systems` imports it; commands and `systems.find` look it up by name.
"""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import Mean
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import Server


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "2 P M in 2 P S messages; with `worker.whole_batch`, for each evaluation of all data, P M for the weights and about 2 P M for sums, "
    "and short messages: P S for each portion, 2 S for each dot product",
    shards="servers",
)
def sandblaster(servers: int = 2) -> Strategy:
    """L-BFGS on whole batches, whose vectors lie at the servers (Sandblaster; DistBelief; Dean et al., NIPS 2012, section 4.2).

    For `worker.whole_batch`: worker 0 coordinates `torch.optim.LBFGS`, whose dot products, sums and scalings the servers carry out on their
    parts. Workers are dealt portions of the batch far smaller than a share, as they ask; near the end those that have not come back are
    dealt a second time, and the first answer counts. A model that is attached with another optimizer is trained by the same servers
    asynchronously, where each gradient counts 1 / P.
    """
    return Strategy(name="sandblaster", consistency=Asynchronous(), topology=Server(servers), merge=Mean())
