"""Local steps between rounds."""

from __future__ import annotations

from polyrhythm.consistency import LocalSteps, PacedLocalSteps
from polyrhythm.controllers import LocalStepShares
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import DelayedNesterov, Mean, Nesterov, OuterOptimizer
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, Ring, Server


@system(Family.LOCAL_STEPS, "2 P M / τ in 2 P messages every τ steps", tau="period")
def sparknet(period: int = 10) -> Strategy:
    """Local SGD with periodic averaging at a driver (SparkNet; Moritz, Nishihara, Stoica, Jordan, ICLR 2016, arXiv:1511.06051).

    Each worker takes `period` local steps, then the driver averages the weights. The paper's runs use periods of 50 on long trainings;
    momentum stays with each worker; compose with `local=ResetMoments()` to reset it after each average, or, over an all-reduce, with
    `AverageMoments()` to average it too. `polyrhythm_reproductions.speedup` has the paper's model of its speed-up.
    """
    return Strategy(name="sparknet", consistency=LocalSteps(period), topology=Server(1), merge=Mean())


@system(Family.LOCAL_STEPS, "2 (P − 1) M / τ in 2 P (P − 1) messages every τ steps", tau="period")
def diloco(period: int = 20, outer_learning_rate: float = 0.7, outer_momentum: float = 0.9) -> Strategy:
    """Many local steps, then one outer Nesterov step on the mean update (DiLoCo; Douillard et al., 2023, arXiv:2311.08105).

    The paper takes a period of 500 for long trainings, an outer learning rate of 0.7 and momentum 0.9. The inner optimizer is the
    training function's own (AdamW in the paper); its state stays with each worker.
    """
    outer = OuterOptimizer(Nesterov(outer_learning_rate, outer_momentum))
    return Strategy(name="diloco", consistency=LocalSteps(period), topology=AllReduce(Ring()), merge=outer)


@system(
    Family.FEDERATED,
    "2 M for each exchange of a worker, in 2 messages; and 4 numbers to each other worker for each decision",
    tau="period",
    learning_rate="outer_learning_rate",
    momentum="outer_momentum",
    every="momentum_period",
)
def async_local_sgd(
    period: int = 10, outer_learning_rate: float = 0.7, outer_momentum: float = 0.9, momentum_period: int | None = None
) -> Strategy:
    """Asynchronous local SGD with delayed momentum and local steps by speed (Liu, Chhaparia, Douillard et al., 2024, arXiv:2401.09135).

    As `diloco`, but nobody waits: the server steps on each worker's update as it comes, and its momentum moves once in `momentum_period`
    updates, by default, as in the paper, their number P; momentum at each would act P times a round, on updates of different age. The
    fastest worker takes `period` steps, a slower one as many as it can meanwhile. Each update counts 1 / P.
    """
    return Strategy(
        name="async-local-sgd",
        consistency=PacedLocalSteps(period),
        topology=Server(),
        merge=OuterOptimizer(DelayedNesterov(outer_learning_rate, outer_momentum, momentum_period)),
        controller=LocalStepShares(period),
    )
