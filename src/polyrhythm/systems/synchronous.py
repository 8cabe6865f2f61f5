"""Synchronous SGD: all workers take the same step.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.codec import ErrorFeedback, LowRank, OneBit, PerTensor, Striped, Warmup
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import Adagrad, Mean, OuterOptimizer
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, Alone, Bucketed, Deferred, Delayed, Direct, Ring, Summation, Tree


@system(Family.BASELINE, "nothing")
def single() -> Strategy:
    """One worker trains alone; the baseline that the others are measured against."""
    return Strategy(name="single", topology=Alone())


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 P (P − 1) messages")
def allreduce() -> Strategy:
    """Synchronous SGD over a ring all-reduce (Horovod; Sergeev and Del Balso, 2018, arXiv:1802.05799).

    Gradients are averaged, and every worker runs the same optimizer on the mean, so that optimizer states stay equal.
    """
    return Strategy(name="allreduce", topology=AllReduce(Ring()))


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 P (P − 1) messages")
def direct() -> Strategy:
    """Synchronous SGD over a direct all-reduce, everyone to everyone (Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4).

    A reduce-scatter and an all-gather, each in one exchange between every two workers: as many bytes as `allreduce`, and the same bits, in
    two latencies instead of 2 (P - 1), over P (P - 1) connections. For networks whose latency is long relative to the model's transfer.
    """
    return Strategy(name="direct", topology=AllReduce(Direct()))


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 (P − 1) messages")
def tree() -> Strategy:
    """Synchronous SGD over a reduction tree (FireCaffe; Iandola, Moskewicz, Ashraf, Keutzer, CVPR 2016, arXiv:1511.00175)."""
    return Strategy(name="tree", topology=AllReduce(Tree()))


@system(Family.FEW_BITS, "2 (P − 1) B in 2 P (P − 1) messages; as `allreduce` while warming up")
def onebit(warmup: int = 10, double_buffering: bool = False, adagrad: bool = False) -> Strategy:
    """1-bit SGD with error feedback on both legs (Seide, Fu, Droppo, Li, Yu, Interspeech 2014).

    Each worker owns a stripe of rows: it gets everyone's quantized gradients of that stripe, sums them, quantizes the sum with
    a second residual, and sends it to all. One bit an element and two values a column; vectors go uncompressed, and so does everything in
    the first `warmup` steps. Every worker runs the same optimizer on the mean; with `adagrad` it is AdaGrad, behind the quantizer, at the
    rate of the worker's optimizer. With `double_buffering` a sum is made while the next batch is computed, and stepped on after it: give
    half the batch size, as the paper halves its batches for that. `largest_batch` is the paper's choice of batch sizes.
    """
    codec = Warmup(warmup, Striped(PerTensor(ErrorFeedback(OneBit()))))
    topology = Delayed(AllReduce(Ring()), steps=1) if double_buffering else AllReduce(Ring())
    return Strategy(name="onebit", topology=topology, codec=codec, merge=OuterOptimizer(Adagrad()) if adagrad else Mean())


@system(Family.FEW_ELEMENTS, "2 (P − 1) B in 4 P (P − 1) messages a bucket; as `allreduce` while warming up")
def powersgd(rank: int = 2, warmup: int = 10, bucket_bytes: int = 25 * 2**20) -> Strategy:
    """Low-rank gradients with error feedback and warm start (PowerSGD; Vogels, Karimireddy, Jaggi, NeurIPS 2019, arXiv:1905.13727).

    Matrices go as products of two factors of `rank` columns, from one step of the power iteration that starts where the step before
    ended; vectors go as they are, and so does everything in the first `warmup` steps. Gradients are exchanged in buckets of about
    `bucket_bytes`, each as soon as backward() has computed it (as DistributedDataParallel's hook has it). What the factors leave out is
    added to the next gradient. Every worker runs the same optimizer on the mean.
    """
    codec = Warmup(warmup, ErrorFeedback(LowRank(rank)))
    return Strategy(name="powersgd", topology=Bucketed(AllReduce(Ring()), bucket_bytes), codec=codec)


@system(
    Family.SERVERS,
    "2 P (1 − (P − k) / (P² + k P − 2 k)) M with k spare machines: 2 (P − 1) M for none, 2 P M for P; 2 P (P − 1 + k) messages a "
    "tensor or piece of one",
)
def byteps(spares: int = 0, piece_bytes: int = 4 * 2**20) -> Strategy:
    """Synchronous SGD over a summation service, tensor by tensor (BytePS; Jiang, Zhu, Lan, Yi, Cui, Guo, OSDI 2020).

    `spares` machines only sum, and the P workers sum what is left, in proportions that keep all lines busy: a step takes
    2 P (P - 1) M / ((P² + k P - 2 k) B), the 2 (P - 1) / P of an all-reduce without spares, and 1 with as many as there are workers.
    Tensors leave in pieces of at most `piece_bytes` as backward() computes them, the first layers first; step() does not wait, and a
    module's next forward pass waits for its own parameters alone. Every worker runs the same optimizer on the mean. What the paper does
    inside a machine (PCIe switches, NVLink), and its asynchronous mode, are not here.
    """
    return Strategy(name="byteps", topology=Deferred(Summation(spares, piece_bytes)))
