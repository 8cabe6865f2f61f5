"""Training by actors: one server, one that waits for some, and none, on the exclusive or of two bits."""

from __future__ import annotations

from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.merge import Sum
from polyrhythm.systems import find
from polyrhythm.topology import Server
from polyrhythm.workloads.xor import Xor
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.ranks import rank_correlation
from polyrhythm_reproductions.trial import ArmTrial, Result

_TAU = 0.01
_TAUS = (_TAU, 0.3, 1.0, 3.0)


def in_full(name: str) -> Strategy:
    """The system, where every gradient counts in full."""
    preset = find(name)
    return Strategy(consistency=preset.consistency, topology=preset.topology, merge=Sum(), name=name)


def measure(trial: ArmTrial) -> Figures:
    """Accuracies and virtual seconds at equal samples, and accuracies by tau."""
    workers = trial.size(25, 8)
    job = Xor(samples=workers * trial.size(1000, 300))

    def train(name: str, strategy: Strategy) -> Result:
        return trial.train(name, job, strategy, workers, Simulator("cloud", seed=trial.seed))

    sync = train("sync", Strategy(topology=Server(), merge=Sum(), name="sync"))
    central, soft = (train(name, in_full(name)) for name in ("actors", "actors-softsync"))
    by_tau = {tau: train(f"decentralised, tau {tau:g}", find("actors-decentralised", threshold=tau)) for tau in _TAUS}
    return {
        "throughput": central.seconds / by_tau[_TAU].seconds,
        "points lost": 100 * (sync.final - soft.final),
        "accuracy by tau": rank_correlation(list(by_tau), [each.final for each in by_tau.values()]),
    }


REPRODUCTION = Reproduction(
    name="actors",
    systems=("actors", "actors-softsync", "actors-decentralised"),
    paper="Addair: Machine Learning Model Training with Actors (2017)",
    setting=(
        "xor (2-2-1, sigmoid, one sample a step, rate 0.5 in all arms), the paper's example, on 25 replicas with 1,000 samples each "
        "(8 with 300 in a quick run; the paper: 2,000), on `cpu-core` machines in `cloud` (0.25 ms one way; a step takes 0.5 ms at a "
        "replica). Every gradient counts in full, as in the paper: the presets of central actors are composed with Sum(). tau is in "
        "units of weights."
    ),
    baseline="sync",
    measure=measure,
    claims=(
        Claim(
            paper="Without a server training is fastest.",
            ours="samples a second of decentralised replicas (tau = 0.01) over those of asynchronous ones at a server",
            figure="throughput",
            unit="x",
            least=1.5,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Waiting for some replicas keeps the accuracy of waiting for all.",
            ours="accuracy lost by soft synchronization against waiting for all, at equal samples",
            figure="points lost",
            unit="points",
            most=2.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="The larger the threshold, the lower the accuracy.",
            ours="rank correlation of tau and accuracy, tau from 0.01 to 3",
            figure="accuracy by tau",
            unit="correlation",
            most=-0.7,
        ),
    ),
)
