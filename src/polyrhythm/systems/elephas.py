"""Keras models trained on partitions of a Spark data set."""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import Adagrad, Mean, OuterOptimizer, Sum
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import Server, SharedMemory


@system(Family.LOCAL_STEPS, "2 P M / τ in 2 P messages every τ steps", tau="period")
def elephas(period: int = 20) -> Strategy:
    """Partitions train by themselves, then the driver applies the mean of their deltas (Elephas; Pumperla, 2015, its synchronous mode).

    A delta is the weights before minus those after; each counts 1 / P. Elephas makes one round of the whole training: choose `period`, the
    steps of a round, as many as a worker takes, or as an epoch has to exchange after each. Optimizer state stays with each worker.
    """
    return Strategy(name="elephas", consistency=LocalSteps(period), topology=Server(1), merge=Mean())


@system(Family.ASYNCHRONOUS_SERVERS, "2 P M / τ in 2 P messages every τ steps", tau="period", learning_rate="outer_learning_rate")
def elephas_asynchronous(period: int = 1, outer_learning_rate: float | None = None, initial_sum: float = 0.0) -> Strategy:
    """Deltas go to a driver that locks its weights, where a second optimizer takes them (Elephas; Pumperla, 2015, asynchronous mode).

    A worker reads the weights, takes `period` steps with its own optimizer (1 is Elephas' frequency "batch", an epoch's steps its "epoch")
    and sends the weights before minus those after, which the driver's Adagrad takes for a gradient, one after another. Nobody waits for
    other workers. Elephas recommends SGD at the workers and Adagrad or Adadelta at the driver; `outer_learning_rate` is the driver's: 0.01
    in Keras of 2015, here by default that of the worker's optimizer.
    """
    adagrad = OuterOptimizer(Adagrad(outer_learning_rate, initial_sum), Sum())
    return Strategy(name="elephas-asynchronous", consistency=LocalSteps(period, Asynchronous()), topology=Server(1), merge=adagrad)


@system(Family.ASYNCHRONOUS_PEERS, "nothing")
def elephas_hogwild() -> Strategy:
    """Deltas are written to weights that nobody locks (Elephas; Pumperla, 2015, its mode "hogwild").

    Threads of Elephas' driver subtract deltas from the same weights at the same time, and may lose writes. Here the weights lie in memory
    of one host, and a worker's optimizer steps on them after each batch, with no second one after it; every step counts in full. Real runs
    count how many writes of rows were lost; the modes with locks lose none.
    """
    return Strategy(name="elephas-hogwild", consistency=Asynchronous(), topology=SharedMemory(), merge=Sum())
