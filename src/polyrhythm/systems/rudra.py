"""Learners and parameter servers with n-softsync, flat or in a tree."""

from __future__ import annotations

from polyrhythm.consistency import BulkSynchronous, SoftSync
from polyrhythm.controllers import TotalBatch
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.controller import Fixed
from polyrhythm.core.protocols.merge import Merge
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.groups import OfSize
from polyrhythm.merge import Mean, SquareRootScaling
from polyrhythm.shuffle import GlobalShuffle, OwnPace
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import BroadcastTree, Server


@system(Family.ASYNCHRONOUS_SERVERS, "as `softsync`")
def rudra(groups: int = 1, samples: int | None = None, reference: int | None = None) -> Strategy:
    """Learners around one parameter server (Rudra-base; Gupta, Zhang, Wang, ICDM 2016, arXiv:1509.04210).

    n-softsync with n = `groups`: the server steps on the mean of each ⌊λ / n⌋ gradients, and nobody waits; mean staleness is about n, and
    the learning rate is η / n. `groups=0` is hardsync: all wait for all, at the rate η √(λ μ / B) for λ learners with batches of μ, B
    being `reference` samples, or the batch of one learner. With `samples` the paper's rule holds that λ μ be constant: a learner's
    batch is samples / λ, from its second step on. The server runs the worker's optimizer, its momentum once a step.
    """
    return Strategy(
        name="rudra",
        consistency=_rule(groups),
        topology=Server(),
        merge=_merge(groups, samples, reference),
        controller=Fixed() if samples is None else TotalBatch(samples),
        shuffle=GlobalShuffle() if samples is None else OwnPace(),
    )


@system(Family.ASYNCHRONOUS_SERVERS, "2 P M between learners and aggregators at most, and 2 P / group_size M between these and the root")
def rudra_adv(group_size: int = 2, groups: int = 1) -> Strategy:
    """Aggregators between learners and the parameter server (Rudra-adv; Gupta, Zhang, Wang, ICDM 2016, arXiv:1509.04210).

    `group_size` learners push to an aggregator, which sends the mean of that many gradients to the root and answers learners with the
    weights that it got back last: the root gets 1 / group_size of the gradients. `groups` is the n of softsync among aggregators; with as
    many as there are of these each of their pushes is a step, at the rate η / n. `groups=0` is hardsync, at the training function's
    rate. The tree has two levels.
    """
    levels = Hierarchical(
        inner=Exchange(consistency=_rule(min(groups, 1)), topology=Server()),
        outer=Exchange(consistency=_rule(groups), topology=Server()),
        groups=OfSize(group_size),
    )
    return Strategy(name="rudra-adv", exchange=levels)


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "P M and P / group_size M for pushes; for weights M for each newer version that a learner or aggregator gets",
)
def rudra_adv_star(group_size: int = 2, groups: int = 1, fan_out: int = 2) -> Strategy:
    """As `rudra-adv`, with weights that are broadcast over trees (Rudra-adv*; Gupta, Zhang, Wang, ICDM 2016, arXiv:1509.04210).

    The root sends new weights to `fan_out` aggregators, which pass them on to others, and so does each aggregator among its learners.
    Pushes and weights travel in the background: a learner continues from the newest that have come. In the paper the one tree of weights
    is among learners.
    """
    tree = BroadcastTree(fan_out)
    levels = Hierarchical(
        inner=Exchange(consistency=_rule(min(groups, 1)), topology=tree),
        outer=Exchange(consistency=_rule(groups), topology=tree),
        groups=OfSize(group_size),
    )
    return Strategy(name="rudra-adv-star", exchange=levels)


def _rule(groups: int) -> Consistency:
    """n-softsync; hardsync if `groups` is 0."""
    return SoftSync(groups) if groups else BulkSynchronous()


def _merge(groups: int, samples: int | None, reference: int | None) -> Merge:
    """The mean over all learners, which gives n-softsync's η / n; for hardsync the rate grows with the square root of the batch."""
    if groups:
        return Mean()
    return SquareRootScaling(None if samples is None or reference is None else samples / reference)
