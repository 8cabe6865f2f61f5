"""Protocol of topologies: with whom workers exchange, and by which messages.

Members are in `topology`. The plan of an exchange makes a `Channel` for each worker, and runs `serve` at each server; the replica calls the
channel.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.consistency import Conditions, Consistency
from polyrhythm.core.protocols.controller import AS_COMPOSED, Controller, Controls, Fixed
from polyrhythm.core.protocols.local import LocalRule, PlainSteps
from polyrhythm.core.protocols.merge import Merge, Rule, rule_of
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.result_source import ResultSource
from polyrhythm.core.protocols.snapshots import Snapshots
from polyrhythm.core.protocols.state import ServerCheckpoints
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.protocols.upstream import Upstream
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree


@dataclass(frozen=True)
class Agreement:
    """The agreement at the start of a run: the other pieces, and the payload that they have in common."""

    payload: Payload
    consistency: Consistency
    codec: Codec
    merge: Merge
    local: LocalRule = PlainSteps()  # noqa: RUF009 (a frozen value)
    controller: Controller = Fixed()  # noqa: RUF009 (a frozen value)

    @cached_property
    def conditions(self) -> Conditions:
        """When workers exchange and wait."""
        return self.consistency.conditions

    @cached_property
    def rule(self) -> Rule | None:
        """The merge's own optimizer, if it has one."""
        return rule_of(self.merge)

    @cached_property
    def previews(self) -> bool:
        """True if a worker can compute the effect that its contribution has before it reads: where weights move by sums of updates alone.

        An optimizer between contributions and weights has a state where the weights are held, and a second one would not agree with it.
        """
        return self.payload is Payload.UPDATE and self.rule is None


@dataclass(frozen=True, slots=True)
class WorkerEndpoint:
    """The endpoint of a worker's side of a topology: its group, the servers of that group by name, and its port."""

    group: Group
    servers: tuple[str, ...]
    port: Port


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """The endpoint of a server: its group, which are all servers of its workers, those workers by name, and its port.

    Events go to `record`; `snapshots` is shown the weights before they change; `checkpoints` has the files of its state. With an `upstream`
    it exchanges its workers' changes of the weights with the servers of other groups.
    """

    group: Group
    workers: tuple[str, ...]
    port: Port
    record: Recorder
    snapshots: Snapshots
    checkpoints: ServerCheckpoints
    upstream: Upstream | None = None


def _sent(weights: Tensor) -> Tensor:
    return weights.clone() if weights.device.type == "cpu" else weights.cpu()


@dataclass(frozen=True, slots=True)
class InitialState:
    """The initial state at a worker: its weights, and its optimizer as text, from which others can build it.

    `controls` has the decisions of this worker's controller so far.
    """

    model_state: WeightsView
    optimizer: str
    controls: Controls = AS_COMPOSED

    def weights(self) -> Tensor:
        """The current weights (numel,), on the CPU and in new memory: safe to be sent."""
        return _sent(self.model_state.weights)

    def agreed(self) -> Tensor:
        """As `weights`, without what it has done alone since the last exchange: what those who begin have in common with it."""
        return _sent(self.model_state.anchor)


class Channel(Protocol):
    """A worker's side of a topology, for one run. Its coroutines only communicate; responses change the replica."""

    @property
    def offers(self) -> Offers:
        """Other ways to exchange than `exchange`. Known after `establish`; `writes` after `finish`, at the first worker."""

    async def establish(self, initial: InitialState) -> Response:
        """Make all workers start with the weights of worker 0."""

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        """Send `value` (numel,) after step `clock`; the response changes the replica.

        Where the payload is NOTHING, `value` are the rows of the layout that the step has written, counted over all its tensors.
        """

    async def finish(self) -> Response:
        """End the run: wait for what is on its way, and give all workers the final weights."""

    async def drain(self, step: int) -> str:
        """Wait until all that was sent has arrived, before a checkpoint after `step`.

        Every worker does so, and sends nothing until the checkpoint is written. Servers write their state. Returns the error of one of
        them, as a sentence; empty where there is none.
        """

    def export(self) -> StateTree:
        """The state of this side, after `drain`; see `Stateful`."""

    def restore(self, state: StateTree) -> None:
        """Take over what was exported, after `establish`; see `Stateful`."""

    def take_over(self, state: StateTree, own: bool) -> None:
        """After `establish` among other members: continue from what a channel of earlier members has exported.

        `own`: this worker has exported it; else a donor has, and what belongs to a worker alone, such as a residual, begins anew. So do
        counts of requests, for all. Raises CheckpointError for a state that cannot be handed over.
        """

    def inherit(self, residual: Tensor) -> None:
        """Send later, too, what a worker that has left did not send (numel,)."""

    def states(self) -> list[tuple[State, Tensor]]:
        """The codec's states and their residuals, in the order of the flat vector (for checkpoints and the conservation law).

        Values given to `exchange` that are neither sent nor in a response are in the residuals. Before `establish` there are none.
        """


def kept_back(channel: Channel, numel: int) -> Tensor:
    """What `channel` has not sent of the values that it was given (numel,).

    Where each receiver is kept something else, the mean over receivers. Of an exchange that was interrupted at this worker, and that the
    others have completed, all was sent.
    """
    kept = [residual for _, residual in channel.states()]
    return torch.cat(kept).view(-1, numel).mean(0) if kept else torch.zeros(numel)


def residual_left(channel: Channel, state: StateTree, numel: int) -> Tensor:
    """The residual (numel,) of a worker that has left, for `inherit`, as `kept_back` has it.

    `state` is what its channel exported. `channel` is any other of the topology, and has that state afterwards.
    """
    if state is not None:
        channel.take_over(state, own=True)
        return kept_back(channel, numel)
    return torch.zeros(numel)


class ServerSide(Protocol):
    """The servers of a topology. Frozen settings."""

    def count(self, workers: int) -> int:
        """The number of servers for that many workers."""

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        """The part of a vector of `layout` that each of so many servers holds, where servers hold the weights."""

    def serve(self, agreement: Agreement, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """Run one server until the end of its model."""


class PeerChannel(Channel, Protocol):
    """The channel of an actor that exchanges with peers whenever it has something, and receives from them at other times too."""

    @property
    def slowest(self) -> float:
        """The least clock that a peer has sent; infinite where all have finished."""

    def may_proceed(self, clock: int) -> bool:
        """True if an actor that has done step `clock` need not wait for peers."""

    async def wake(self) -> None:
        """Make a waiting `listen` return."""

    async def listen(self) -> Response:
        """Wait until a peer has sent something, or for `wake`; the response has what may be merged."""


class Topology(Protocol):
    """Makes a channel for each worker. Settings are frozen."""

    @property
    def traits(self) -> TopologyTraits:
        """The properties that composition checks."""

    @property
    def result(self) -> ResultSource:
        """The actors whose weights are the result of a run."""

    def workers(self, available: int) -> int:
        """The number of the available workers that it uses."""

    @property
    def service(self) -> ServerSide | None:
        """The side of its servers; None where it has none."""

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side of the topology, for one run."""


def server_count(topology: Topology, workers: int) -> int:
    """The number of servers that a topology needs for that many workers."""
    return 0 if topology.service is None else topology.service.count(workers)
