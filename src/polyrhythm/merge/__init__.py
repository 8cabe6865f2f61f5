"""Merges: how the contributions of workers change the weights.

`Strategy(merge=...)` holds one. `core.weights.state` calls it where the weights are held, at each replica or at a server; gossip topologies
call `mix` too.
"""

from polyrhythm.merge.adaptive_rules import Adam, Yogi
from polyrhythm.merge.batch_weighted import BatchWeighted
from polyrhythm.merge.delayed_nesterov import DelayedNesterov
from polyrhythm.merge.elastic import Elastic
from polyrhythm.merge.frozen_adam import FrozenAdam
from polyrhythm.merge.heavy_ball import HeavyBall
from polyrhythm.merge.larc import LARC
from polyrhythm.merge.lars import LARS
from polyrhythm.merge.linear_scaling import LinearScaling
from polyrhythm.merge.mean import Mean
from polyrhythm.merge.outer_optimizer import OuterOptimizer
from polyrhythm.merge.parzen_gate import ParzenGate
from polyrhythm.merge.polynomial_staleness import PolynomialStaleness
from polyrhythm.merge.proximal_sgd import ProximalSGD
from polyrhythm.merge.rules import Adagrad, Nesterov
from polyrhythm.merge.sample_mean import SampleMean
from polyrhythm.merge.sign_descent import SignDescent
from polyrhythm.merge.slow_momentum import SlowMomentum
from polyrhythm.merge.square_root_scaling import SquareRootScaling
from polyrhythm.merge.staleness_scaled import StalenessScaled
from polyrhythm.merge.sum import Sum
from polyrhythm.merge.versioned_mean import VersionedMean

MEMBERS = (
    *(Mean(), Sum(), StalenessScaled(), Elastic(), OuterOptimizer(Nesterov()), OuterOptimizer(Adagrad(0.1), Sum())),
    OuterOptimizer(SlowMomentum()),
    OuterOptimizer(HeavyBall()),
    *(LinearScaling(), LinearScaling(warmup=8), LARS(), LARC()),
    ParzenGate(),
    *(OuterOptimizer(SignDescent()), OuterOptimizer(FrozenAdam(2))),
    ProximalSGD(0.01, per_delay=0.1),
    *(SampleMean(), BatchWeighted(), OuterOptimizer(Adam(), SampleMean()), OuterOptimizer(Yogi())),
    *(PolynomialStaleness(), OuterOptimizer(DelayedNesterov(every=3))),
    *(VersionedMean(), SquareRootScaling()),
)
"""One of each kind and of each interesting setting: the laws are tested over this list."""

__all__ = [
    "LARC",
    "LARS",
    "MEMBERS",
    "Adagrad",
    "Adam",
    "BatchWeighted",
    "DelayedNesterov",
    "Elastic",
    "FrozenAdam",
    "HeavyBall",
    "LinearScaling",
    "Mean",
    "Nesterov",
    "OuterOptimizer",
    "ParzenGate",
    "PolynomialStaleness",
    "ProximalSGD",
    "SampleMean",
    "SignDescent",
    "SlowMomentum",
    "SquareRootScaling",
    "StalenessScaled",
    "Sum",
    "VersionedMean",
    "Yogi",
]
