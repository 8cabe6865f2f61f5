"""Hierarchical methods: groups of workers that exchange with each other as one.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.codec import ErrorFeedback, Relative
from polyrhythm.consistency import Asynchronous, Bounded, LocalSteps
from polyrhythm.core.strategy import Exchange, Hierarchical, Leaders, Strategy, Stripes
from polyrhythm.groups import InGroups, OfSize
from polyrhythm.merge import HeavyBall, Mean, OuterOptimizer, Sum
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, AsAgreed, ByLayer, Direct, Overlay, Ring, RoundTrips, SelectiveBarrier, Server


@system(Family.ALL_REDUCE, "2 (G − 1) M between G groups, and 3 (P − G) M inside them")
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


@system(Family.LOCAL_STEPS, "2 (G − 1) M / τ between G groups, and 2 (P − G) M inside them", tau="period")
def hierarchical_local_sgd(period: int = 16, groups: str | int = "site") -> Strategy:
    """An all-reduce of gradients in each group, and averages of the groups' weights every few steps (Lin et al., ICLR 2020, section 5).

    The paper's hierarchical local SGD with one step between exchanges inside a group, as suits fast lines there and slow ones between:
    after `period` steps of all the groups average what they changed, each by its number of workers. The optimizers of a group's members
    see the same gradients; groups' optimizers keep their own state.
    """
    levels = Hierarchical(
        inner=Exchange(topology=AllReduce(Ring())),
        outer=Exchange(consistency=LocalSteps(period), topology=AllReduce(Ring()), merge=Mean()),
        groups=groups,
    )
    return Strategy(name="hierarchical-local-sgd", exchange=levels)


@system(Family.GOSSIP, "2 G M between G groups' roots and the servers, and 3 (P − G) M inside the groups")
def hybrid_groups(groups: int | str = 4, servers: int = 4) -> Strategy:
    """Lockstep in groups, asynchronous servers among them (after Kurth et al., Deep Learning at 15PF, SC 2017, section III-E).

    A group averages its gradients by an all-reduce; its root sends the mean to the servers, which run the workers' optimizer, of whatever
    kind, on each group's gradient as it comes, at 1 / G of its rate, and broadcasts the weights that they answer with. The `servers` have
    shards of nearly equal bytes. `groups` may be other than so many neighbours: "site", or ranks as "0,1/2,3". `fifteen-pf` is the paper's
    system.
    """
    levels = Hierarchical(
        inner=Exchange(topology=AllReduce(Ring())),
        outer=Exchange(consistency=Asynchronous(), topology=Server(servers)),
        groups=InGroups(groups) if isinstance(groups, int) else groups,
    )
    return Strategy(name="hybrid-groups", exchange=levels)


@system(Family.GOSSIP, "as `hybrid-groups`")
def fifteen_pf(groups: int = 4, servers: int = 4, momentum: float = 0.9) -> Strategy:
    """Lockstep in groups, and a server for each layer among them (Kurth et al., Deep Learning at 15PF, SC 2017, section III-E).

    A group averages its gradients by an all-reduce; its root sends the mean of each layer to that layer's server, which steps on each
    group's gradient as it comes, in full, and broadcasts the weights that the servers respond with. Give as many `servers` as there are
    layers; fewer get whole layers, so that they hold nearly equal bytes. `momentum` is what suits one group: asynchrony acts as a momentum
    of 1 - 1 / G, so the servers use momentum - (1 - 1 / G), or none. They take the learning rate from the workers' optimizers, and nothing
    else. The paper tuned the momentum on a grid; this formula takes the place of that.
    """
    levels = Hierarchical(
        inner=Exchange(topology=AllReduce(Ring())),
        outer=Exchange(
            consistency=Asynchronous(),
            topology=Server(servers, division=ByLayer()),
            merge=OuterOptimizer(HeavyBall.beside(groups, momentum), Sum()),
        ),
        groups=InGroups(groups),
    )
    return Strategy(name="fifteen-pf", exchange=levels)


@system(Family.GOSSIP, "2 P M between workers and the servers of G groups, and 2 G M between these and the root")
def yu(group_size: int = 2, slack: int = 0) -> Strategy:
    """Two levels of parameter servers (after Yu, Jiang, Chi, 2016; contents unverified: groups have servers of their own).

    The workers of a group push gradients to its server, which sends their mean to the root; this runs the workers' optimizer, and its
    weights go back to the workers by the way of the groups' servers. The root gets and sends G models a step, where a single server has P:
    its traffic is divided by `group_size`. A group is at most `slack` steps ahead of the slowest (0: lockstep, as with one server).
    """
    levels = Hierarchical(
        inner=Exchange(topology=Server()),
        outer=Exchange(consistency=Bounded(slack), topology=Server()),
        groups=OfSize(group_size),
    )
    return Strategy(name="yu", exchange=levels)


@system(
    Family.GOSSIP,
    "at each site 2 P M among its workers and server; between sites 8 bytes for each significant element and other site; with hubs "
    "for each element that is significant at one of a hub's sites, and other hub and site of its group",
    share="mean_share",
    lead="site_slack",
)
def gaia(
    threshold: float = 0.01,
    floor: float = 1e-3,
    decay: float = 0.5,
    mean_share: float = 1.0,
    hubs: int = 1,
    site_slack: int | None = None,
    slack: int = 0,
    groups: str | int = "site",
) -> Strategy:
    """Servers at every site that send each other only significant updates (Gaia; Hsieh et al., NSDI 2017).

    Workers of a site exchange with its own server (`slack` as of SSP; 0 is lockstep), which adds up their updates, each counting 1 / P of
    all workers. A server sends the other sites what has accrued of a weight where that exceeds `threshold` / t^`decay` of the weight (where
    the weight is smaller, of `floor`, or of `mean_share` of the mean magnitude in its tensor, which is ours) at step t; until then it
    counts at its own site alone. A `decay` of 0 freezes the threshold. Where a line would carry a packet for longer than a step, the
    indices of its elements go first, and the other server responds to no read of its weights until their values have come (the selective
    barrier; workers read all elements at once). No worker is ahead of the slowest site by more than what is done in two round trips to the
    farthest one, or by more than `site_slack` steps if given (the mirror clock). With `hubs` above 1, so many neighbouring sites each send
    to one of them, in turns, which adds up what they have and forwards it.
    """
    agreed, clock = (Asynchronous(), RoundTrips()) if site_slack is None else (Bounded(site_slack), AsAgreed())
    sites = Hierarchical(
        inner=Exchange(consistency=LocalSteps(1, Bounded(slack)), topology=Server(1), merge=Mean()),
        outer=Exchange(
            consistency=LocalSteps(1, agreed),
            topology=Overlay(hubs, barrier=SelectiveBarrier(), clock=clock),
            codec=ErrorFeedback(Relative(threshold, floor, decay, mean_share)),
            merge=Sum(),
        ),
        groups=groups,
    )
    return Strategy(name="gaia", exchange=sites)
