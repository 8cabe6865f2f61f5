"""Synchronous SGD with other ways of making a sum.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.consistency import LocalSteps
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import Adasum, AllReduce, Direct, Keyed, Ring, Star, Tree


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 (P − 1) messages, all of them over worker 0's line")
def d2l() -> Strategy:
    """Synchronous SGD whose sums are made at worker 0 and copied back (Zhang, Lipton, Li, Smola, Dive into Deep Learning, 2023).

    The all-reduce that the book writes from scratch in section 13.5: worker 0 sends and receives (P - 1) M each, which bounds all others.
    Every worker takes its part of each batch of all, and a step is that of one process on the whole batch, to rounding.
    """
    return Strategy(name="d2l", topology=AllReduce(Star()))


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 (P − 1) messages, at most 2 ⌈log2 P⌉ of a worker")
def parallel_sgd() -> Strategy:
    """Parallel SGD over a tree (Hegde and Usmani, Parallel and Distributed Deep Learning, Stanford, 2016, section 3).

    Gradients are reduced up a binomial tree and the sum is broadcast down it: each worker sends and receives O(log P) messages of the
    whole model, 2 (P - 1) in all. The paper broadcasts weights; every worker makes them here from the sum, with the same optimizer.
    """
    return Strategy(name="parallel-sgd", topology=AllReduce(Tree()))


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 (P − 1) messages")
def firecaffe() -> Strategy:
    """Synchronous SGD over a reduction tree (FireCaffe; Iandola, Moskewicz, Ashraf, Keutzer, CVPR 2016, arXiv:1511.00175).

    The sum climbs a binomial tree and comes back down it: 2 log2 P M / B, of which the paper's formula counts the way up, against P M / B
    each way at one parameter server (`polyrhythm.topology.costs` has both). `tree` is the bare algorithm; the paper's other two means,
    fast links and large batches with a learning rate tuned for them, are the network's and the training function's.
    """
    return Strategy(name="firecaffe", topology=AllReduce(Tree()))


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 P (P − 1) messages")
def yadan() -> Strategy:
    """Data parallelism of a few workers that exchange all with all (Yadan, Adams, Taigman, Ranzato, 2013, arXiv:1312.5853).

    The paper's GPUs are 4 in one box, and its batch is that of all together: divide batch_size by the number of workers where runs are
    compared. Its other dimension, the model split over pairs of GPUs, is not here.
    """
    return Strategy(name="yadan", topology=AllReduce(Direct()))


@system(Family.ALL_REDUCE, "2 (P − 1) M in 2 P (P − 1) messages a tensor")
def collective_allreduce() -> Strategy:
    """Synchronous SGD with an all-reduce of each tensor (CollectiveAllReduceStrategy of TensorFlow 1.11, 2018; Abadi et al., OSDI 2016).

    Workers launch a ring for each tensor when backward() has computed it; its group key and its instance key say which messages belong
    together, so that workers which launch in different orders do not wait for each other for ever. Tensors are not fused: many small
    ones cost a latency each, all at the same time.
    """
    return Strategy(name="collective-allreduce", topology=Keyed(AllReduce(Ring())))


@system(Family.ALL_REDUCE, "2 (P − 1) M, and less than 48 P log2 P bytes a tensor for dot products, where P is a power of two")
def adasum() -> Strategy:
    """What workers' optimizers did, combined by pairs (Adasum; Maleki et al., MLSys 2021, arXiv:2006.02924).

    Every worker's own optimizer takes the step, and of two updates what they have in common counts once, tensor by tensor: equal ones are
    averaged, orthogonal ones are added. So the learning rate is chosen for one worker, and needs no scaling with their number (2 to 2.5
    times at most, by the paper). Recursive halving sends what a ring does. Optimizer state stays with each worker.
    """
    return Strategy(name="adasum", consistency=LocalSteps(1), topology=Adasum())
