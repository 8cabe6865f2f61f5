"""An all-reduce whose result is used some steps later, so that it is under way while these are computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.recurrence import Recurrence
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, ApplyOneByOne, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.collective.all_reduce import AllReduce
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.collective.late_sums import LateSums
from polyrhythm.topology.collective.late_updates import LateUpdates
from polyrhythm.topology.families import COLLECTIVE


@dataclass(frozen=True, slots=True)
@checked
class Delayed:
    """The sum of step t is stepped on at step t + `steps` (Pipe-SGD; Li et al., NeurIPS 2018, with a width of `steps` + 1).

    One step of delay is the lag-1 gradient of Laanait et al. (2019) and the double buffering of Seide et al. (2014). Exchanges are made
    one after another; a step waits only for the one that began `steps` before. The first `steps` steps change nothing, and the run ends
    with the sums that are outstanding. What the first `warmup` steps send is waited for, as without delay (a few synchronous
    epochs in the paper). With local steps it is their update that is sent at step t, and the result is taken over after
    step t + `steps` (streaming DiLoCo; Douillard et al., 2025), which must be before the next is sent; the steps meanwhile count as
    `local` has it: not at all, or in part (`KeepOwn`). Raises CompositionError where something else than an all-reduce is wrapped.
    """

    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    topology: AllReduce = field(default_factory=AllReduce)
    steps: int = 1
    warmup: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.topology, AllReduce):  # not a choice between pieces: what is annotated, for those who do not check types
            raise CompositionError(f"Delayed({self.topology!r}) is for sums of gradients: give it AllReduce(...).")
        if self.steps < 0:
            raise CompositionError(f"Delayed(steps={self.steps}) would use a sum before it is made: give 0 or more.")
        if self.warmup < 0:
            raise CompositionError(f"Delayed(warmup={self.warmup}) is no number of steps: give 0 or more.")

    @property
    def traits(self) -> TopologyTraits:
        """Sums whose results come `steps` steps later."""
        provides = COLLECTIVE - {Capability.MEAN, Capability.OWN_WEIGHTS} if self.steps else COLLECTIVE
        rounds, payloads = self.topology.traits.rounds, frozenset({Payload.GRADIENT, Payload.UPDATE})
        recurs = Recurrence(self.warmup + self.steps if self.warmup else 0)
        return TopologyTraits(payloads, "collectively", provides, late=self.steps, rounds=rounds, recurs=recurs)

    def workers(self, available: int) -> int:
        return self.topology.workers(available)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        sums = LateSums(CollectiveClient(self.topology.algorithm, agreement.codec, endpoint), agreement.merge.traits.averages)
        return _Pipeline(self, sums, endpoint) if agreement.payload.is_gradient else LateUpdates(self.steps, self.warmup, sums, endpoint)


class _Pipeline:
    """An exchange begins a sum, and returns an older one.

    Sums are made by messages: a runtime's own have no names, and must come in one order at all workers, which exchanges that run
    concurrently do not have.
    """

    def __init__(self, settings: Delayed, sums: LateSums, endpoint: WorkerEndpoint) -> None:
        self.settings = settings
        self.client = sums.client
        self.group = endpoint.group
        self.port = endpoint.port
        self.sums = sums
        self.offers = Offers(sums=sums)

    async def establish(self, initial: InitialState) -> Response:
        self.client.open(initial.model_state.layout, lambda: initial.model_state.weights, initial.model_state)
        return AdoptWeights(await broadcast(self.port, self.group, initial.agreed(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        sums = self.sums
        sums.begin(clock, value, rates)
        await sums.resume()
        ahead = clock <= sums.done  # the worker continues from the state of one that has completed this exchange
        waits = clock <= self.settings.warmup or len(sums.held) > self.settings.steps
        response = ApplyContributions([await sums.oldest()] if waits and not ahead else [])
        sums.end()
        return response

    async def finish(self) -> Response:
        return ApplyOneByOne([await self.sums.oldest() for _ in range(len(self.sums.held))])

    async def drain(self, step: int) -> str:
        await self.sums.drain()
        return ""

    def export(self) -> StateTree:
        return self.sums.export()

    def restore(self, state: StateTree) -> None:
        self.sums.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        self.sums.take_over(state, own)

    def inherit(self, residual: Tensor) -> None:
        self.sums.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.sums.states()


EXAMPLES = ()  # its sums come late, which the laws of members exclude; its own tests have it
