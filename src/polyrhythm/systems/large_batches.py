"""Synchronous SGD with batches so large that the learning rate must be scaled."""

from __future__ import annotations

from polyrhythm.core.strategy import Exchange, Hierarchical, Leaders, Strategy, Stripes
from polyrhythm.merge import LARC, LinearScaling
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, Delayed, Direct, Ring, Tree


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 P (P − 1) messages")
def large_minibatch(warmup: int = 30) -> Strategy:
    """An all-reduce with a learning rate that grows to P times that of one worker (Goyal et al., 2017, arXiv:1706.02677).

    η (1 + (P - 1) (t - 1) / warmup) at step t, the first being 1, then P η, times what a schedule of the training function makes of it; the
    paper warms up for five of ninety epochs, and here `warmup` counts steps. Five of its seven pitfalls cannot be met with: gradients are
    divided once, by P; weight decay is not scaled; momentum is PyTorch's, which the rate multiplies; one shuffle of all samples is dealt
    out; batch norm's statistics are those of each worker's own batch. The gamma of a residual block's last norm, the decay of gammas, betas
    and biases, and the schedule are the training function's: `lint_recipe` and `polyrhythm check` look for them.
    """
    return Strategy(name="large-minibatch", topology=AllReduce(Ring()), merge=LinearScaling(warmup))


@system(
    Family.ALL_REDUCE,
    "2 (G − 1) M between G groups, and 3 (P − G) M inside them; with stripes 2 (G − 1) M too, over the lines of all members",
    lag="delay",
)
def climate(groups: str | int = "site", delay: int = 1, trust: float = 0.02, stripes: bool = False) -> Strategy:
    """Sums inside hosts, then across, used a step late, under layer-wise rates (Kurth et al., Exascale Deep Learning for Climate, SC 2018).

    A site (or, with groups="host", a host, as in the paper) adds up its gradients, its leader exchanges the sum with those of others over a
    tree, and the step is taken on that of `delay` steps before, which was under way while gradients were computed. LARC steps on each layer
    with the smaller of the learning rate and `trust` times the norm of its weights over that of its gradient; leave weight decay out of
    the optimizer, or give it to LARC. With `stripes` each member exchanges a part of the sum, as four of six did in the paper; all groups
    must then have equally many workers. The paper's control messages over a tree are not needed: all exchange in the same order.
    """
    levels = Hierarchical(
        inner=Exchange(topology=AllReduce(Direct())),
        outer=Exchange(topology=Delayed(AllReduce(Tree()), delay), merge=LARC(trust)),
        groups=groups,
        across=Stripes() if stripes else Leaders(),
    )
    return Strategy(name="climate", exchange=levels)
