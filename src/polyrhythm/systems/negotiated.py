"""Synchronous SGD in which workers negotiate, during backward(), the order in which gradients are summed."""

from __future__ import annotations

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AllReduce, BitVector, Fused, Neighbours, ResponseCache, Ring


@system(
    Family.ALL_REDUCE,
    "2 (P − 1) M, fused tensors padded to multiples of P, and 2 (P − 1) short messages over worker 0's line a cycle",
    fusion_bytes="bucket_bytes",
)
def horovod(bucket_bytes: int = 64 * 2**20, cycle_seconds: float = 0.001) -> Strategy:
    """Ring all-reduces of fused tensors, in an order that a coordinator negotiates (Horovod; Sergeev and Del Balso, 2018).

    Every `cycle_seconds` workers tell worker 0 which gradients backward() has computed, first by name and from then on by bits of a
    response cache; those that are there at all are copied to a buffer of up to `bucket_bytes`, summed, and copied back. So workers may
    compute gradients in different orders, and many small tensors cost the latency of one. Every worker runs the same optimizer on the
    mean. In a composition of your own `Fused(..., tuning=Autotune())` looks for better settings of both numbers, and
    `codec=Cast(torch.float16)` is Horovod's compression; `adasum` and `hierarchical` are its other ways to combine.
    """
    return Strategy(name="horovod", topology=Fused(AllReduce(Ring()), bucket_bytes, cycle_seconds, ResponseCache()))


@system(
    Family.ALL_REDUCE,
    "2 (P − 1) M, fused tensors padded to multiples of P, and P ⌈log2 P⌉ short messages a cycle",
    fusion_bytes="bucket_bytes",
)
def bitvector(bucket_bytes: int = 64 * 2**20, cycle_seconds: float = 0.001, group: int = 4) -> Strategy:
    """As `horovod`, but readiness is an all-reduce of bits without a coordinator (Laanait et al., 2019, arXiv:1909.11150).

    A bitwise AND over ready bits gives what is ready everywhere, in ⌈log2 P⌉ messages of each worker, whatever the number of tensors.
    `group` tensors that follow one another are sent only when all are there. Names go over worker 0 in the first step alone.
    """
    topology = Fused(AllReduce(Ring()), bucket_bytes, cycle_seconds, BitVector(), Neighbours(group))
    return Strategy(name="bitvector", topology=topology)
