"""Local steps between averages: of weights, of what optimizers remember, with momentum or duals around them.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.codec import ErrorFeedback, OneBit, PerTensor, TopK
from polyrhythm.consistency import LocalSteps, Switched
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.local_rules import AverageMoments, Consensus, PlainSteps, ResetMoments
from polyrhythm.merge import Mean, OuterOptimizer, SlowMomentum
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AggregationTree, AllReduce, Direct, Ring


@system(Family.LOCAL_STEPS, "2 (P − 1) M / τ in 2 P (P − 1) messages every τ steps", tau="period")
def local_sgd(period: int = 16) -> Strategy:
    """Averages of the weights every few steps (local SGD; Stich, ICLR 2019, arXiv:1805.09767).

    Every `period` steps all workers average what they changed, which is the average of their weights. For strongly convex problems the
    paper allows a period that grows with the square root of the number of steps; 16 is what Lin et al. (2020) take. Optimizer state stays
    with each worker.
    """
    return Strategy(name="local-sgd", consistency=LocalSteps(period), topology=AllReduce(Ring()), merge=Mean())


@system(
    Family.LOCAL_STEPS,
    "P (P − 1) / τ times a bit for each element of the matrices and two means for each row, and 2 (P − 1) / τ times the vectors, in 3"
    " P (P − 1) messages every τ steps",
    tau="period",
)
def qsparse_local_sgd(period: int = 8, ratio: float | None = None) -> Strategy:
    """Local steps whose changes are sent in few bits (Qsparse-local-SGD; Basu, Data, Karakus, Diggavi, NeurIPS 2019, arXiv:1906.02367).

    Every `period` steps each worker sends what it changed since the last exchange, in a bit for each element of its matrices, and adds what
    rounding lost to what it sends next (error feedback); vectors are averaged as they are. With a `ratio` so many of the largest elements
    are sent instead, as values. The paper also does both at once. It has a master, which sends back weights; here packets go to all, whose
    mean is the same. A bit stands for the mean of its row's elements of that sign (Seide et al., 2014); the paper has one size for all.
    """
    kept = OneBit() if ratio is None else TopK(ratio)
    codec = PerTensor(ErrorFeedback(kept))
    return Strategy(name="qsparse-local-sgd", consistency=LocalSteps(period), topology=AllReduce(Direct()), codec=codec, merge=Mean())


@system(Family.LOCAL_STEPS, "2 (P − 1) M in 2 P (P − 1) messages, after each of the first steps and then every τ steps", tau="period")
def post_local_sgd(synchronous: int = 100, period: int = 8) -> Strategy:
    """Synchronous steps first, then local ones (post-local SGD; Lin, Stich, Patel, Jaggi, ICLR 2020, arXiv:1808.07217).

    All exchange after each of the first `synchronous` steps, and from then on every `period` steps: the paper switches where the learning
    rate is first divided, and takes a period of 16 on 16 workers. In the first phase updates are averaged: under SGD, with momentum and
    weight decay too, that is a step on the mean gradient, up to rounding; under Adam and its kin it is not. Optimizer state stays with each
    worker.
    """
    return Strategy(name="post-local-sgd", consistency=LocalSteps(Switched(synchronous, period)), topology=AllReduce(Ring()), merge=Mean())


@system(
    Family.LOCAL_STEPS,
    "2 (P − 1) M / τ in 2 P (P − 1) messages every τ steps",
    tau="period",
    alpha="outer_learning_rate",
    beta="outer_momentum",
)
def slowmo(period: int = 12, outer_learning_rate: float = 1.0, outer_momentum: float = 0.7) -> Strategy:
    """Momentum over rounds of local steps (SlowMo; Wang, Tantia, Ballas, Rabbat, ICLR 2020, arXiv:1910.00643).

    Every `period` steps the workers average their weights, and the average x moves on with slow momentum: u ← β u + (x0 - x) / γ, x ← x0 -
    α γ u, where γ is the optimizer's learning rate, x0 the weights of the round before, α `outer_learning_rate` and β `outer_momentum`. The
    workers' optimizers begin each round anew (the paper's choice for SGD; it lets Adam continue: `local=PlainSteps()`, and
    `AverageMoments()` is its third). The paper takes α = 1, β from 0.4 to 0.8 and periods of 12 to 48.
    """
    slow = OuterOptimizer(SlowMomentum(outer_learning_rate, outer_momentum))
    return Strategy(name="slowmo", consistency=LocalSteps(period), topology=AllReduce(Ring()), merge=slow, local=ResetMoments())


@system(
    Family.LOCAL_STEPS,
    "2 (P − 1) (M + U) / τ in 6 (P − 1) messages every τ steps, U being the bytes of the optimizer's state and a number a tensor; "
    "plain SGD has no state, and 4 (P − 1) messages",
)
def dl4j_averaging(period: int = 5, depth: int = 2, save_updater: bool = True) -> Strategy:
    """Parameters and updater averaged over a tree (DL4J's ParameterAveragingTrainingMaster; Skymind, 2014, Deeplearning4j on Spark).

    Every `period` steps weights are averaged over a tree of `depth` levels whose root is the driver, here worker 0; with `save_updater`
    so is what the workers' optimizers remember, and without it stays with them. DL4J's defaults are an averaging period of 5, a depth of 2
    and 16 samples for each worker, which the training function sets; its guide says that the updater is averaged, though its builder
    leaves `saveUpdater` false. With plain SGD and a period of 1 it takes the steps of one process on the whole batch.
    """
    tree = AllReduce(AggregationTree(depth))
    local = AverageMoments() if save_updater else PlainSteps()
    return Strategy(name="dl4j-averaging", consistency=LocalSteps(period), topology=tree, merge=Mean(), local=local)


@system(Family.LOCAL_STEPS, "2 (P − 1) M / τ in 2 (P − 1) messages every τ steps", rho="proximal_weight", tau="period")
def admm_sgd(proximal_weight: float = 0.1, period: int = 10) -> Strategy:
    """Consensus ADMM with SGD for the local problems (Hegde and Usmani, Parallel and Distributed Deep Learning, Stanford CME 323, 2016).

    A worker takes `period` steps on f_k(w) + ρ/2 |w - z + u_k|², ρ being `proximal_weight`, then z ← mean(w_k + u_k) and u_k ← u_k + w_k -
    z; its next problem begins at its own w_k. The result is z. The duals u_k stay with their workers, and sum to 0, so that an all-reduce
    of what workers did gives z. Events `Agreed` have the primal residual |w_k - z| / |z|. Too small a ρ lets a nonconvex problem diverge;
    the learning rate must be well below 1 / ρ, and momentum makes the steps longer.
    """
    return Strategy(
        name="admm-sgd",
        consistency=LocalSteps(period),
        topology=AllReduce(AggregationTree(1)),
        merge=Mean(),
        local=Consensus(proximal_weight),
    )
