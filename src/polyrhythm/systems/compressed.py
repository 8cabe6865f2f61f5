"""Synchronous SGD with gradients in few bits or few elements.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.codec import (
    AveragedMomentum,
    Clipped,
    CosineTopK,
    DecayingFeedback,
    ErrorFeedback,
    LocalMomentum,
    MomentumCorrection,
    PerTensor,
    RateScaled,
    RefreshedLowRank,
    ScaledSign,
    SenderMean,
    Sign,
    StochasticLevels,
    Striped,
    Ternary,
    TopKWarmup,
    Warmup,
)
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import FrozenAdam, OuterOptimizer, SignDescent
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, Ring


@system(Family.FEW_BITS, "P (P − 1) B in P (P − 1) messages: 4 bits an element, and 4 bytes a bucket")
def qsgd(levels: int = 7, bucket: int = 512) -> Strategy:
    """Gradients rounded at random to a few levels (QSGD; Alistarh, Grubic, Li, Tomioka, Vojnovic, NeurIPS 2017, arXiv:1610.02132).

    Every element becomes one of 2 `levels` + 1 multiples of its bucket's norm, so drawn that nothing is lost on average; 7 levels and a
    sign take 4 bits. Packets go to all, and every worker runs the same optimizer on the mean. Elias codes are left out.
    """
    return Strategy(name="qsgd", topology=AllReduce(Ring()), codec=StochasticLevels(levels, bucket))


@system(Family.FEW_BITS, "P (P − 1) B in P (P − 1) messages: 2 bits an element, and 4 bytes a tensor")
def terngrad(clip: float = 2.5) -> Strategy:
    """Gradients of three values a layer (TernGrad; Wen, Xu, Yan, Wu, Wang, Chen, Li, NeurIPS 2017, arXiv:1705.07878).

    Every element becomes -1, 0 or 1 times its tensor's largest magnitude in 2 bits, after magnitudes were clipped to `clip` times σ.
    Packets go to all instead of to a server, so that scales need not be shared; every worker runs the same optimizer on the mean.
    """
    return Strategy(name="terngrad", topology=AllReduce(Ring()), codec=Ternary(clip))


@system(Family.FEW_BITS, "2 (P − 1) M / 32 in 2 P (P − 1) messages: one bit an element both ways")
def signsgd(momentum: float = 0.0) -> Strategy:
    """Signs of gradients both ways, by majority vote (signSGD; Bernstein et al., ICML 2018 and ICLR 2019, arXiv:1810.05291).

    Each worker owns a stripe: it gets everyone's signs there and tells all the sign of their sum; a tie counts as plus. Every element
    then moves by the learning rate, which must be as small as Adam's. With a `momentum` above 0 its sign is sent instead (Signum; 0.9 in
    the paper).
    """
    vote = Striped(Sign())
    codec = LocalMomentum(momentum, vote) if momentum else vote
    return Strategy(name="signsgd", topology=AllReduce(Ring()), codec=codec, merge=OuterOptimizer(SignDescent()))


@system(
    Family.FEW_ELEMENTS,
    "P (P − 1) times 8 bytes for each ratio of an element of every tensor, in P (P − 1) messages; more in the warm-up",
)
def dgc(ratio: float = 0.001, momentum: float = 0.9, warmup: int = 10, clip_norm: float | None = None) -> Strategy:
    """Deep gradient compression (DGC; Lin, Han, Mao, Wang, Dally, ICLR 2018, arXiv:1712.01887).

    Of each tensor the `ratio` of largest elements is sent of what has accumulated with momentum; where a value leaves, its momentum is
    forgotten. For `warmup` steps each (an epoch in the paper), a quarter, a sixteenth, a 64th and a 250th are sent first, as far as that
    is more than `ratio`. Gradients are clipped to `clip_norm` / √P at each worker. Momentum is the codec's: give the optimizer none.
    """
    ratios = (*(stage for stage in (0.25, 0.0625, 0.015625, 0.004) if stage > ratio), ratio)
    accumulated = MomentumCorrection(TopKWarmup(ratios, warmup), momentum)
    codec = PerTensor(accumulated, rest=accumulated)
    clipped = codec if clip_norm is None else Clipped(clip_norm, codec)
    return Strategy(name="dgc", topology=AllReduce(Ring()), codec=clipped)


@system(Family.FEW_BITS, "2 (P − 1) M / 32 in 2 P (P − 1) messages, and 4 bytes a stripe and tensor; as `allreduce` in the warm-up")
def onebit_adam(warmup: int = 20, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> Strategy:
    """Adam, then one-bit momentum over a frozen variance (1-bit Adam; Tang et al., ICML 2021, arXiv:2102.02888).

    After `warmup` steps of Adam on whole gradients (15 to 25 % of the steps in the paper) v stays as it is. From then on workers send
    signs of their momenta and one size a tensor, with error feedback at the workers and at the owners of stripes. Adam is the merge's: of
    the training function's optimizer only the learning rate is used. Bias is corrected, which the paper's equations leave out.
    """
    codec = AveragedMomentum(beta1, warmup, Striped(ErrorFeedback(ScaledSign())))
    adam = OuterOptimizer(FrozenAdam(warmup, beta1, beta2, epsilon))
    return Strategy(name="onebit-adam", topology=AllReduce(Ring()), codec=codec, merge=adam)


@system(Family.FEW_ELEMENTS, "as `powersgd` in one bucket; as `allreduce` while warming up and every `period` steps")
def powersgd_plus(rank: int = 2, refresh_period: int = 50, warmup: int = 10) -> Strategy:
    """Low-rank gradients whose projection is found anew from time to time (PowerSGD+; Xie, Chen, Yuan, 2025, arXiv:2509.11254).

    As `powersgd`, but every `refresh_period` steps gradients go as they are, and a singular value decomposition of their sum gives the
    projection with which the power iteration continues. All in one bucket.
    """
    codec = Warmup(warmup, ErrorFeedback(RefreshedLowRank(rank, refresh_period)))
    return Strategy(name="powersgd-plus", topology=AllReduce(Ring()), codec=codec)


@system(Family.FEW_ELEMENTS, "P (P − 1) B in P (P − 1) messages: 6 bytes for each coefficient kept")
def demo(kept: int = 32, chunk: int = 64, decay: float = 0.999) -> Strategy:
    """Momenta that stay apart but for their fast components (DeMo; Peng, Quesnelle, Kingma, 2024, arXiv:2411.19870).

    Each worker adds its gradients, times the learning rate, to a momentum that fades by `decay`. Of every block of at most `chunk` by
    `chunk` elements the `kept` largest cosine coefficients are sent, and taken out of it. Of each coefficient the mean over the workers
    that sent it is taken, and transformed back; every element then moves by the learning rate along the sign of that. This is the authors'
    code; weight decay, which it has too, is left out.
    """
    codec = RateScaled(DecayingFeedback(SenderMean(CosineTopK(kept, chunk)), decay))
    return Strategy(name="demo", topology=AllReduce(Ring()), codec=codec, merge=OuterOptimizer(SignDescent()))
