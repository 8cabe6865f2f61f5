"""Groups that exchange with each other as one."""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous
from polyrhythm.strategy import Exchange, Hierarchical, InGroups, Leaders, Strategy, Stripes
from polyrhythm.topology import AllReduce, Direct, Ring, Server


def hierarchical(groups: str | int = "site", stripes: bool = False) -> Strategy:
    """Synchronous SGD over an all-reduce in each group and one among groups (Horovod's hierarchical all-reduce; Jia et al., 2018).

    Every worker adds up gradients with its own site (or host, or group), then the groups' leaders with each other, and each leader
    broadcasts the sum: between G groups 2 (G - 1) / G of the model goes each way, where a ring over P workers in blocks sends
    2 (P - 1) / P over every crossing. With `stripes` each member exchanges a stripe of the sum, so that all lines of a group carry its
    traffic; groups must then be of one size.
    """
    levels = Hierarchical(
        inner=Exchange(topology=AllReduce(Direct())),
        outer=Exchange(topology=AllReduce(Ring())),
        groups=groups,
        across=Stripes() if stripes else Leaders(),
    )
    return Strategy(name="hierarchical", exchange=levels)


def hybrid_groups(groups: int = 4, servers: int = 4) -> Strategy:
    """Lockstep in groups, asynchronous servers among them (Kurth et al., Deep Learning at 15PF, SC 2017, section III-E).

    A group averages its gradients by an all-reduce; its root sends the mean to the servers, which run the workers' optimizer on each
    group's gradient as it comes, and broadcasts the weights that they answer with. The paper has one server for each layer; here `servers`
    shards of nearly equal bytes take their place. Asynchrony acts as momentum: the paper lowers the momentum as groups are added.
    """
    levels = Hierarchical(
        inner=Exchange(topology=AllReduce(Ring())),
        outer=Exchange(consistency=Asynchronous(), topology=Server(servers)),
        groups=InGroups(groups),
    )
    return Strategy(name="hybrid-groups", exchange=levels)
