"""Rounds of local steps by some of the workers, as clients of a server."""

from __future__ import annotations

from polyrhythm.consistency import Buffered, LocalSteps, SampledClients
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.local_rules import Proximal
from polyrhythm.merge import Adam, OuterOptimizer, PolynomialStaleness, SampleMean
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import Server


@system(Family.FEDERATED, "2 M for each worker that is drawn, in 2 messages of each every τ steps", tau="period")
def fedavg(fraction: float = 0.5, period: int = 10) -> Strategy:
    """Federated averaging (McMahan, Moore, Ramage, Hampson, Agüera y Arcas, AISTATS 2017, arXiv:1602.05629, algorithm 1).

    For each round `fraction` of the workers are drawn; these take `period` steps each, and the server averages what they have done, each
    weighted by its samples. The others compute and send nothing. The paper takes a tenth of 100 or more clients, and one to 20 passes of a
    client over its own data: give `period` = passes x samples / batch. Its clients have data of their own: give a ShardedSource.
    """
    return Strategy(name="fedavg", consistency=SampledClients(fraction, period), topology=Server(), merge=SampleMean())


@system(Family.FEDERATED, "as `fedavg`", tau="period", mu="proximal_weight")
def fedprox(fraction: float = 0.5, period: int = 10, proximal_weight: float = 0.1) -> Strategy:
    """Federated averaging whose local steps are pulled back (FedProx; Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, MLSys 2020).

    As `fedavg`, with μ (w - w0) added to a worker's gradient, μ being `proximal_weight` and w0 the weights with which the round began, so
    that workers whose data differ do not drift far apart. The paper takes μ from 0.001 to 1, and lets slow workers do fewer steps, which
    all do alike here.
    """
    return Strategy(
        name="fedprox", consistency=SampledClients(fraction, period), topology=Server(), merge=SampleMean(), local=Proximal(proximal_weight)
    )


@system(Family.FEDERATED, "as `fedavg`", tau="period", learning_rate="outer_learning_rate", adaptivity="epsilon")
def fedadam(fraction: float = 0.5, period: int = 10, outer_learning_rate: float = 0.03, epsilon: float = 1e-3) -> Strategy:
    """Federated averaging with Adam at the server (FedAdam; Reddi, Charles, Zaheer et al., ICLR 2021, arXiv:2003.00295, algorithm 2).

    The mean of what the workers of a round did is taken for a gradient, on which Adam steps by `outer_learning_rate`; `epsilon` is the
    paper's adaptivity τ. For FedYogi compose with OuterOptimizer(Yogi(), SampleMean()), for FedAdagrad with Adagrad. The paper tunes both
    learning rates, from 0.001 to 10, and `epsilon` from 1e-5 to 0.1.
    """
    outer = OuterOptimizer(Adam(outer_learning_rate, adaptivity=epsilon), SampleMean())
    return Strategy(name="fedadam", consistency=SampledClients(fraction, period), topology=Server(), merge=outer)


@system(Family.FEDERATED, "2 P M / τ in 2 P messages every τ steps", tau="period")
def fedbuff(buffer: int = 2, period: int = 10, power: float = 0.5) -> Strategy:
    """Asynchronous federated averaging with a buffer (FedBuff; Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, AISTATS 2022).

    A worker takes `period` steps, pushes what they did, and continues at once from the server's newest weights. The server applies the mean
    of each `buffer` updates, from whichever workers, those that were computed on older weights times (1 + staleness)^-power. The paper
    takes buffers of 10 for about 1000 clients at a time, and a server's learning rate that is tuned; here it is 1.
    """
    return Strategy(name="fedbuff", consistency=LocalSteps(period, Buffered(buffer)), topology=Server(), merge=PolynomialStaleness(power))
