"""A parameter server with ranges of keys, replicas, filters and bounded delay."""

from __future__ import annotations

from polyrhythm.codec import KKT, FeatureBlocks, KeyList, RandomSkip
from polyrhythm.consistency import BoundedDelay
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import ProximalSGD
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import ChangedRows, ServerRing, ZerosInBits


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "what is not zero or filtered, and a bit for each key that ever was not, of which the list is sent once; back the rows that have "
    "changed, and for each replica what a step has changed",
    delay="slack",
    blocks="parts",
)
def li_ps(
    slack: int | None = 2,
    servers: int = 2,
    replicas: int = 1,
    penalty: float = 0.0,
    per_delay: float = 0.0,
    skip: float = 0.0,
    parts: int = 1,
) -> Strategy:
    """Delayed proximal gradient on a parameter server (Li, Andersen, Park, Smola, Ahmed, Josifovski, Long, Shekita, Su, OSDI 2014).

    Ranges of keys lie on a ring of servers, each copied to the next `replicas` when it is merged. Step t starts when all steps up to t
    - `slack` - 1 have finished at all workers; None waits for nobody. Servers step on the mean gradient of a step with the worker's
    learning rate, and with a `penalty` on absolute values apply its soft threshold; the rate falls by `per_delay`, see `ProximalSGD`.
    Lists of keys are sent once, zeros take a bit, gradients that would leave a weight at zero are not sent (KKT filter), `skip` of the
    others are left out at random, and servers answer with the rows that have changed, where zeros take a bit too. The optimizer's
    momentum is not used. With `parts`, a step is on one of so many ranges of the weights, the same at all workers, as the paper's
    solver goes through blocks of features.
    """
    keys = KeyList() if skip == 0 else RandomSkip(KeyList(), skip)
    filtered = KKT(keys, penalty)
    return Strategy(
        name="li-ps",
        consistency=BoundedDelay(slack),
        topology=ServerRing(servers, replicas, responses=ZerosInBits(ChangedRows())),
        codec=filtered if parts == 1 else FeatureBlocks(filtered, parts),
        merge=ProximalSGD(penalty, per_delay),
    )
