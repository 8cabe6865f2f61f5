"""Asynchronous methods, and methods with bounded staleness.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.codec import ErrorFeedback, GapCoded, Threshold
from polyrhythm.consistency import Asynchronous, Bounded, Intervals, LocalSteps, SoftSync, WarmStart
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.local_rules import PlainSteps, RandomComponent
from polyrhythm.merge import Adagrad, Elastic, Mean, OuterOptimizer, StalenessScaled, Sum
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllToAll, Server, SharedMemory


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "P M / push for the pushes and at most P M / fetch for weights: at most 2 P M in 2 P S messages",
    shards="servers",
    learning_rate="outer_learning_rate",
    push="push_period",
    fetch="fetch_period",
    n_push="push_period",
    n_fetch="fetch_period",
)
def downpour(
    servers: int = 1,
    outer_learning_rate: float | None = None,
    initial_sum: float = 1e-6,
    push_period: int = 1,
    fetch_period: int = 1,
    warm_start: int = 0,
) -> Strategy:
    """Asynchronous SGD with Adagrad at the servers (DistBelief; Dean et al., NIPS 2012, section 4.1).

    Workers push what has accrued every `push_period` steps and ask for weights every `fetch_period` steps (1 and 1 in the paper's runs), in
    the background: until they come, a worker continues with its own optimizer (appendix, algorithm 7.1). The servers may be at different
    versions. Adagrad there takes the worker's learning rate, unless `outer_learning_rate` is given: its first step is of that size in every
    coordinate, so a rate for SGD or Adam need not be one for it. `initial_sum` starts its accumulator; where that is above what gradients
    come to, as 0.1 is on chars-gpt, Adagrad is SGD. For the first `warm_start` steps one replica trains alone, then the others take over
    its weights. With 4 workers on `lan`, digits-cnn reaches 0.969, 0.989, 0.992 (seeds 0 to 2; with 0.1: 0.978, 0.972, 0.986), and
    chars-gpt in batches of 4, seed 0, comes to 2.91 bits at a learning rate of 0.005, and to 3.19 at its own.
    """
    adagrad = OuterOptimizer(Adagrad(outer_learning_rate, initial_sum), Sum())
    intervals = Intervals(push_period, fetch_period)
    consistency = WarmStart(warm_start, then=intervals) if warm_start else intervals
    return Strategy(name="downpour", consistency=consistency, topology=Server(servers), merge=adagrad)


@system(Family.SERVERS, "2 P M in 2 P S messages", shards="servers")
def geeps(slack: int = 0, servers: int = 2) -> Strategy:
    """A sharded parameter server for models that outgrow their memory (GeePS; Cui, Zhang, Ganger, Gibbons, Xing, EuroSys 2016).

    Workers push the updates of every step and read all weights before the next: in lockstep, which the paper finds best on fast devices, or
    with `slack` at most so many steps apart. Updates count 1 / P each. What the paper adds is within a worker: `memory.PagedModel` keeps
    parameters and what backward() needs in a budget of fast memory, by a plan that it makes from the first iteration.
    """
    return Strategy(name="geeps", consistency=LocalSteps(1, Bounded(slack)), topology=Server(servers), merge=Mean())


@system(Family.ASYNCHRONOUS_SERVERS, "P M for the pushes, and M for each read: between P M and 2 P M", shards="servers")
def ssp(slack: int = 3, servers: int = 1) -> Strategy:
    """Stale-synchronous parallel (Ho et al., NIPS 2013; Petuum, Xing et al., KDD 2015).

    A worker's optimizer makes the update, the servers add it up; a worker may run `slack` steps ahead of the slowest and reads
    the servers only when what it has could be older. Updates count 1 / P each, so that P workers move about as far as one at its
    learning rate (the theory divides it by √(2 (s + 1) P)); compose with Sum() for the bare sum. Optimizer state stays with each worker.
    """
    return Strategy(name="ssp", consistency=LocalSteps(1, Bounded(slack)), topology=Server(servers), merge=Mean())


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "P M for the pushes, and M for each response with a newer version: at most 2 P M in 2 P S messages",
    shards="servers",
)
def softsync(groups: int = 1, servers: int = 1) -> Strategy:
    """n-softsync with staleness-dependent learning rates (Rudra; Gupta, Zhang, Wang, ICDM 2016; Zhang et al., IJCAI 2016).

    The servers merge ⌊P / groups⌋ gradients at a time and run the worker's own optimizer on their mean, once a group, with the
    learning rate of each divided by max(1, staleness). Nobody waits for others, and who has the newest weights is not sent them again.
    """
    return Strategy(name="softsync", consistency=SoftSync(groups), topology=Server(servers), merge=StalenessScaled())


@system(Family.ASYNCHRONOUS_SERVERS, "2 P M / τ in 2 P S messages every τ steps", tau="period", beta="moving_rate", shards="servers")
def easgd(period: int = 10, moving_rate: float = 0.9, servers: int = 1) -> Strategy:
    """Asynchronous elastic averaging (EASGD; Zhang, Choromanska, LeCun, NIPS 2015, arXiv:1412.6651).

    Every `period` local steps a worker and the centre move towards each other by `moving_rate` / P of their distance. The centre is the
    result; optimizer state stays with each worker.
    """
    return Strategy(name="easgd", consistency=LocalSteps(period, Asynchronous()), topology=Server(servers), merge=Elastic(moving_rate))


@system(Family.ASYNCHRONOUS_SERVERS, "2 P M / τ in 2 P messages every τ steps", tau="period", beta="moving_rate")
def deepspark(period: int = 10, moving_rate: float = 0.9) -> Strategy:
    """Elastic averaging through the driver of a Spark cluster (DeepSpark; Kim, Park, Jang, Yoon, 2016, arXiv:1602.08191).

    Every `period` local steps a worker and the driver's weights move towards each other by `moving_rate` / P of their distance; no worker
    waits for another, and the driver answers each when it asks, one thread a worker in the paper, which write without locks. Here exchanges
    of one driver are made one at a time, so that none is lost: `easgd` with one server. The paper's workers hold what Spark deals out once.
    """
    return Strategy(name="deepspark", consistency=LocalSteps(period, Asynchronous()), topology=Server(1), merge=Elastic(moving_rate))


@system(Family.ASYNCHRONOUS_PEERS, "nothing")
def hogwild(single: bool = False) -> Strategy:
    """Steps on shared weights without locks (Hogwild!; Niu, Recht, Ré, Wright, NIPS 2011).

    The weights lie in memory of one host, and every worker's own optimizer steps on them when it has a gradient: nobody waits, nothing is
    sent, and a write may overwrite another's that is made at the same time. Sparse gradients, as of nn.Embedding(sparse=True), write their
    rows only, so that workers rarely meet. Every step counts in full. Optimizer state stays with each worker. Real runs count how many
    writes of rows were lost. In virtual time a step is computed on the weights as they were when it began and written when it ends,
    so that steps are stale; no write is lost, and the network plays no part. With `single` a step keeps one component of its gradient,
    drawn at random, times their number: the variant that the paper analyses.
    """
    local = RandomComponent() if single else PlainSteps()
    return Strategy(name="hogwild", consistency=Asynchronous(), topology=SharedMemory(), merge=Sum(), local=local)


@system(Family.ASYNCHRONOUS_PEERS, "4 (P − 1) bytes for each element above τ of each worker, in P (P − 1) messages", tau="threshold")
def strom(threshold: float = 4e-3, gaps: bool = False) -> Strategy:
    """Thresholded updates from everyone to everyone, asynchronously (Strom, Interspeech 2015).

    A worker adds its optimizer's update to a residual; where that exceeds `threshold` in size it tells all peers so in 32 bits (31 for the
    place, one for the sign), and everyone, itself included, moves that weight by `threshold` / P, so that P workers move about as far as
    one (the paper: by the whole threshold). With `gaps` places go as entropy-coded distances, which says the same in fewer bits (an option
    of the paper too). Nobody waits. Optimizer state stays with each worker.
    """
    codec = ErrorFeedback(GapCoded(Threshold(threshold)) if gaps else Threshold(threshold))
    return Strategy(name="strom", consistency=LocalSteps(1, Asynchronous()), topology=AllToAll(), codec=codec, merge=Mean())
