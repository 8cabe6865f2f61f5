"""Fragments of a model that are exchanged one after another, while training continues."""

from __future__ import annotations

from polyrhythm.codec import E3M0, ErrorFeedback, Identity, QuantizedLowRank, Striped
from polyrhythm.consistency import Every, LocalSteps
from polyrhythm.core.strategy import Exchange
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.local_rules import KeepLateSteps, KeepOwn
from polyrhythm.merge import Nesterov, OuterOptimizer
from polyrhythm.parameters import Fragment
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, Delayed, Ring

_MOST_PARTS = 1000


@system(
    Family.LOCAL_STEPS,
    "2 (P − 1) B / τ; every τ steps 2 P (P − 1) messages for each fragment",
    tau="period",
    fragments="parts",
    own="own_share",
)
def streaming_diloco(
    period: int = 20, parts: int = 3, delay: int = 1, own_share: float = 0.5, outer_learning_rate: float = 0.4, full_precision: bool = False
) -> Strategy:
    """DiLoCo of one fragment of the model at a time, overlapped with training (Douillard et al., 2025, arXiv:2501.18512).

    Each of the `parts`, fragments in the paper, is exchanged every `period` steps, at offsets of `period` / `parts` from the others, so
    that at no time more than its bytes are to be sent. The outer gradient sent at step t is applied after step t + `delay`, when a worker
    continues from α of its local weights and 1 - α of the new global ones, α being `own_share`. Outer gradients go in four bits, sums too,
    which are made in float32; what four bits lose is sent with the next (the paper does without), unless they go in `full_precision`. The
    paper takes a period of 100, fragments of three transformer blocks, an outer learning rate of 0.4 and momentum 0.9; here a fragment is
    every n-th module. Optimizer state stays with each worker.
    """
    if not isinstance(parts, int) or parts < 1:
        raise CompositionError(
            f"streaming-diloco with parts={parts} has nothing to exchange: it is the number of parts of the model, so give 1 "
            "(all of it at once) or more."
        )
    if parts > _MOST_PARTS:
        raise CompositionError(f"streaming-diloco with parts={parts} has more exchanges than modules: give at most {_MOST_PARTS}.")
    codec = Identity() if full_precision else Striped(ErrorFeedback(E3M0()))
    staggered = [
        Exchange(
            consistency=LocalSteps(Every(period, index * period // parts)),
            topology=Delayed(AllReduce(Ring()), delay),
            codec=codec,
            merge=OuterOptimizer(Nesterov(outer_learning_rate, 0.9)),
            local=KeepOwn(own_share),
        )
        for index in range(parts)
    ]
    others = [(Fragment(index, parts), exchange) for index, exchange in enumerate(staggered) if index]
    return Strategy(name="streaming-diloco", exchange=staggered[0], selected=others)


@system(
    Family.LOCAL_STEPS,
    "2 P (P − 1) (R / 2 + scales) / τ, for R numbers of factors and vectors; in each round 2 P (P − 1) messages",
    tau="period",
)
def diloco_x(period: int = 20, rank: int = 2, outer_learning_rate: float = 0.7, outer_momentum: float = 0.9) -> Strategy:
    """DiLoCo whose outer gradients are factors of few bits, and late (DiLoCoX; Qi et al., 2025, arXiv:2506.21263).

    The outer gradient of `period` local steps is on its way while the next are taken, and applied just before the next is sent; a worker
    then continues from the new global weights and the steps that it has taken meanwhile. Matrices go as factors of `rank`, all in four
    bits, and what these lose is sent with the next. In the paper a site has a pipeline with replicas inside: ``strategy={"site":
    "diloco-x", "dp": Zero(1)}`` on ``Mesh(site=2, dp=2, pp=4)``, where each shard of each stage has an outer step of its own and nobody
    has the whole model. The paper begins with a rank of 2048, which it adapts with the period; both are fixed here.
    """
    if not isinstance(period, int) or period < 2:
        raise CompositionError(
            f"diloco-x with period={period} has no steps to overlap an exchange with: give 2 or more, or take diloco, which waits."
        )
    return Strategy(
        name="diloco-x",
        consistency=LocalSteps(period),
        topology=Delayed(AllReduce(Ring()), period - 1),
        codec=ErrorFeedback(QuantizedLowRank(rank)),
        merge=OuterOptimizer(Nesterov(outer_learning_rate, outer_momentum)),
        local=KeepLateSteps(),
    )
