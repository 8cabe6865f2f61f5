"""Merges: how the contributions of workers change the weights.

`Strategy(merge=...)` holds one. `core.weights.state` calls it where the weights are held, at each replica or at a server; gossip topologies
call `mix` too.
"""

from polyrhythm.core.protocols import declared
from polyrhythm.merge.mean import Mean as Mean
from polyrhythm.merge.sum import Sum as Sum
from polyrhythm.merge.staleness_scaled import StalenessScaled as StalenessScaled
from polyrhythm.merge.elastic import Elastic as Elastic
from polyrhythm.merge.outer_optimizer import OuterOptimizer as OuterOptimizer
from polyrhythm.merge.linear_scaling import LinearScaling as LinearScaling
from polyrhythm.merge.lars import LARS as LARS
from polyrhythm.merge.larc import LARC as LARC
from polyrhythm.merge.parzen_gate import ParzenGate as ParzenGate
from polyrhythm.merge.proximal_sgd import ProximalSGD as ProximalSGD
from polyrhythm.merge.sample_mean import SampleMean as SampleMean
from polyrhythm.merge.batch_weighted import BatchWeighted as BatchWeighted
from polyrhythm.merge.polynomial_staleness import PolynomialStaleness as PolynomialStaleness
from polyrhythm.merge.versioned_mean import VersionedMean as VersionedMean
from polyrhythm.merge.square_root_scaling import SquareRootScaling as SquareRootScaling
from polyrhythm.merge.adaptive_rules import Adam as Adam
from polyrhythm.merge.adaptive_rules import Yogi as Yogi
from polyrhythm.merge.delayed_nesterov import DelayedNesterov as DelayedNesterov
from polyrhythm.merge.frozen_adam import FrozenAdam as FrozenAdam
from polyrhythm.merge.heavy_ball import HeavyBall as HeavyBall
from polyrhythm.merge.rules import Adagrad as Adagrad
from polyrhythm.merge.rules import Nesterov as Nesterov
from polyrhythm.merge.sign_descent import SignDescent as SignDescent
from polyrhythm.merge.slow_momentum import SlowMomentum as SlowMomentum

MEMBERS = (
    *declared.members(globals()),
    OuterOptimizer(Nesterov()),
    OuterOptimizer(Adagrad(0.1), Sum()),
    OuterOptimizer(SlowMomentum()),
    OuterOptimizer(HeavyBall()),
    OuterOptimizer(SignDescent()),
    OuterOptimizer(FrozenAdam(2)),
    OuterOptimizer(Adam(), SampleMean()),
    OuterOptimizer(Yogi()),
    OuterOptimizer(DelayedNesterov(every=3)),
)
"""Examples of each piece, and compositions, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
