"""Workers that fall behind take over a part of the weights of the best."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.controller import AS_COMPOSED, ControlledSetting, Controls
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.recurrence import Recurrence
from polyrhythm.core.protocols.responses import ApplyAndLearn, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, Topology, WorkerEndpoint
from polyrhythm.core.protocols.traits import TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.peers.link_exchange import LinkExchange

_ASKED, _TAUGHT = "ask weights", "weights"


@dataclass(frozen=True, slots=True)
@checked
class KnowledgeTransfer:
    """Over `inner`, ask the worker that the controller names for its weights, every `every` steps (DLion; Hong and Chandra, HPDC 2021).

    w ← (1 - share) w + share w_best when they have come, which it does not wait for. Who is asked answers at its next exchange, with the
    weights of then. What the worker's optimizer remembers stays. The paper shares losses about every 100 steps.
    """

    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    inner: Topology = field(default_factory=LinkExchange)
    every: int = 100
    share: float = 0.75

    def __post_init__(self) -> None:
        if Capability.EVERY_PEER not in self.inner.traits.provides:
            raise CompositionError(
                f"{self!r} has no workers that differ: over {type(self.inner).__name__} they communicate {self.inner.traits.how}. "
                "Give it a topology of peers, such as LinkExchange()."
            )
        if self.every < 1 or not 0 < self.share <= 1:
            raise CompositionError(f"{self!r} transfers nothing: give every=1 step or more, and a share above 0 and at most 1.")

    @property
    def traits(self) -> TopologyTraits:
        """The inner topology's traits, but replicas differ, and a controller may set the teacher."""
        inner, takes = self.inner.traits, frozenset({ControlledSetting.TEACHER})
        return replace(inner, replicas_differ=True, takes=takes, recurs=inner.recurs.with_(Recurrence(period=self.every)))

    def workers(self, available: int) -> int:
        return self.inner.workers(available)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Learner(self.inner.channel(agreement, endpoint), endpoint, self)


class _Learner:
    """`initial` has the weights with which the run began, and those of now."""

    offers = NOTHING

    def __init__(self, inner: Channel, endpoint: WorkerEndpoint, settings: KnowledgeTransfer) -> None:
        self.inner = inner
        self.port = endpoint.port
        self.group = endpoint.group
        self.settings = settings
        self.controls: Controls = AS_COMPOSED
        self.initial: InitialState

    async def establish(self, initial: InitialState) -> Response:
        self.initial, self.controls = initial, initial.controls
        return await self.inner.establish(initial)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        response = await self.inner.exchange(value, clock, rates)
        await self._answer()
        if clock > 1 and (clock - 1) % self.settings.every == 0:  # a decision was made after the step before
            await self._ask()
        taught = await self._taught()
        return response if taught is None else ApplyAndLearn(response, taught, self.settings.share)

    async def _ask(self) -> None:
        own = rank_of(self.port.name)
        teacher = int(self.controls.value(ControlledSetting.TEACHER, own))
        names = {rank_of(name): name for name in self.group.members}
        if teacher != own and teacher in names:
            await self.port.send(names[teacher], Message(_ASKED))

    async def _answer(self) -> None:
        while (asked := await self.port.receive(_ASKED, timeout=0.0)) is not None:
            await self.port.send(asked.sender, Message(_TAUGHT, tensors=(self.initial.weights(),)))

    async def _taught(self) -> Tensor | None:
        """The weights that have come last, if any have."""
        found = None
        while (delivery := await self.port.receive(_TAUGHT, timeout=0.0)) is not None:
            (found,) = delivery.message.tensors
        return found

    async def finish(self) -> Response:
        return await self.inner.finish()

    async def drain(self, step: int) -> str:
        return await self.inner.drain(step)  # a question that is on its way may be lost: another follows

    def export(self) -> StateTree:
        return self.inner.export()

    def restore(self, state: StateTree) -> None:
        self.inner.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        self.inner.take_over(state, own)

    def inherit(self, residual: Tensor) -> None:
        self.inner.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.inner.states()
