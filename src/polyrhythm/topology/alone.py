"""One worker without others: the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import ApplyContributions, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import DIFFERENCES, TopologyTraits
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.families import COLLECTIVE
from polyrhythm.topology.own_gradient import OwnGradient


@dataclass(frozen=True, slots=True)
class Alone:
    """Uses one worker, however many there are; what it computes is what the script would compute without Polyrhythm."""

    traits: ClassVar = TopologyTraits(DIFFERENCES, "collectively", COLLECTIVE)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        return 1

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        averages = agreement.merge.traits.averages and agreement.codec.traits.verbatim
        return _Lone(OwnGradient() if averages else None)


class _Lone:
    def __init__(self, in_place: OwnGradient | None) -> None:
        self.offers = Offers(in_place=in_place)

    async def establish(self, initial: InitialState) -> Response:
        return ApplyContributions([])

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        return ApplyContributions([Contribution(value, rates=rates)])

    async def finish(self) -> Response:
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return ""

    def export(self) -> StateTree:
        return None

    def restore(self, state: StateTree) -> None:
        return None

    def take_over(self, state: StateTree, own: bool) -> None:
        """There is nobody to have anything in common with."""

    def inherit(self, residual: Tensor) -> None:
        """No codec keeps anything back."""

    def states(self) -> list[tuple[State, Tensor]]:
        return []
