"""Tensors that are summed together as they become ready, in an order on which the workers agree while they compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.topology.collective.all_reduce import AllReduce
from polyrhythm.topology.collective.fusing import Cycles
from polyrhythm.topology.collective.readiness.cached import ResponseCache
from polyrhythm.topology.collective.readiness.grouping import Grouping, Separately
from polyrhythm.topology.collective.readiness.protocol import Readiness
from polyrhythm.topology.collective.tensor_channel import TensorChannel
from polyrhythm.topology.collective.tuning import FusionTuning, Knobs, Untuned
from polyrhythm.topology.families import COLLECTIVE


@dataclass(frozen=True, slots=True)
@checked
class Fused:
    """Sum gradients during backward(), several in one buffer of up to `nbytes` (tensor fusion; Horovod, Sergeev and Del Balso, 2018).

    Every `cycle_seconds` workers tell each other which gradients are there, by `readiness`; those that all have are summed, as many
    at once as fit in the buffer, in one order everywhere. 0 bytes fuse nothing; fusion changes no bit, whatever is fused (with
    `Fastest`, which goes by size, to rounding). `groups` are reported when they are complete, and `tuning` may look for better settings
    of both numbers. There is one backward() to each optimizer.step(), and nobody changes gradients between the two. Raises
    CompositionError for a time or a size that is none, and where something else than an all-reduce is wrapped.
    """

    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    topology: AllReduce = field(default_factory=AllReduce)
    nbytes: int = 64 * 2**20
    cycle_seconds: float = 0.001
    readiness: Readiness = field(default_factory=ResponseCache)
    groups: Grouping = field(default_factory=Separately)
    tuning: FusionTuning = field(default_factory=Untuned)

    def __post_init__(self) -> None:
        if not isinstance(self.topology, AllReduce):  # not a choice between pieces: what is annotated, for those who do not check types
            raise CompositionError(f"Fused({self.topology!r}) is for sums of gradients: give it AllReduce(...).")
        if self.topology.algorithm.rounding is Rounding.BY_PART:
            raise CompositionError(
                f"Fused({self.topology!r}) would have sums depend on which tensors come together: {self.topology.algorithm!r} rounds a "
                "number by what is summed with it. Give it another algorithm, or use Bucketed, whose buckets are always the same."
            )
        if self.nbytes < 0 or not self.cycle_seconds > 0:
            raise CompositionError(
                f"Fused(nbytes={self.nbytes}, cycle_seconds={self.cycle_seconds}) cannot be: give a buffer of 0 bytes, which "
                "fuses nothing, or more, and a cycle of more than 0 seconds."
            )

    @property
    def traits(self) -> TopologyTraits:
        """Sums of fused tensors."""
        return TopologyTraits(frozenset({Payload.GRADIENT}), "collectively", COLLECTIVE, rounds=self.topology.traits.rounds)

    def workers(self, available: int) -> int:
        return self.topology.workers(available)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        negotiator = self.readiness.negotiator(endpoint.port, endpoint.group)
        tuner = self.tuning.tuner(Knobs(self.nbytes, self.cycle_seconds), endpoint.port, endpoint.group)
        cycles = Cycles(endpoint, self.topology.algorithm, negotiator, self.groups, tuner)
        return TensorChannel(agreement, endpoint, self.topology.algorithm, cycles)


EXAMPLES = (Fused(AllReduce(), nbytes=64),)
