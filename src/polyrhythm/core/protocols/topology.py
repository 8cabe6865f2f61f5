"""What a topology is: with whom workers exchange, and by which messages."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.controller import AS_COMPOSED, Controller, Controls, Fixed
from polyrhythm.core.protocols.local import LocalRule, PlainSteps
from polyrhythm.core.protocols.merge import Merge, Rule, rule_of
from polyrhythm.core.protocols.requests import CollectiveOperations
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.result_source import ResultSource
from polyrhythm.core.protocols.snapshots import Snapshots
from polyrhythm.core.protocols.state import ServerCheckpoints
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.protocols.upstream import Upstream
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree


@dataclass(frozen=True, slots=True)
class Agreement:
    """What has been agreed when a run begins: the other pieces, and the payload they have in common."""

    payload: Payload
    consistency: Consistency
    codec: Codec
    merge: Merge
    local: LocalRule = PlainSteps()  # noqa: RUF009 (a frozen value)
    controller: Controller = Fixed()  # noqa: RUF009 (a frozen value)

    @property
    def rule(self) -> Rule | None:
        """The merge's own optimizer, if it has one."""
        return rule_of(self.merge)

    @property
    def previews(self) -> bool:
        """Whether a worker can see what its own contribution does before it reads: where weights move by sums of updates alone.

        An optimizer between contributions and weights has a state where the weights are held, and a second one would not agree with it.
        """
        return self.payload is Payload.UPDATE and self.rule is None


@dataclass(frozen=True, slots=True)
class WorkerEndpoint:
    """Where a worker's side of a topology stands: its group, the servers of that group by name, and its port."""

    group: Group
    servers: tuple[str, ...]
    port: Port


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """Where a server stands: its group, which are all servers of its workers, those workers by name, and its port.

    Events go to `record`; `snapshots` is shown the weights before they change; `checkpoints` are where its state is written and
    comes from. With an `upstream` it exchanges
    what its workers do to the weights with the servers of other groups.
    """

    group: Group
    workers: tuple[str, ...]
    port: Port
    record: Recorder
    snapshots: Snapshots
    checkpoints: ServerCheckpoints
    upstream: Upstream | None = None


@dataclass(frozen=True, slots=True)
class InitialState:
    """What worker 0 begins with: its weights and how its optimizer can be built elsewhere (settings as text).

    `controls` is what is decided at this worker while the run is under way.
    """

    model_state: WeightsView
    optimizer: str
    controls: Controls = AS_COMPOSED

    def weights(self) -> Tensor:
        """The weights as they are now (numel,), on the CPU and in memory of their own: safe to be sent."""
        weights = self.model_state.weights
        return weights.clone() if weights.device.type == "cpu" else weights.cpu()


class Buckets(Protocol):
    """Parts of a value that can be sent before the rest of it is known."""

    @property
    def layouts(self) -> Sequence[Layout]:
        """The parts: consecutive, the last one of the whole layout first."""

    async def exchange_bucket(self, bucket: int, value: Tensor) -> None:
        """Exchange one part (numel of its layout,), or have it exchanged when its turn comes, and keep the result.

        Parts come as they are computed, in an order that may differ between workers: a topology that needs one order sees to it.
        """

    async def conclude(self, rates: tuple[float, ...]) -> Response:
        """What is to be done, after every part has been sent."""


class Tensors(Protocol):
    """Tensors that are sent each as it becomes known, and waited for one by one; no other worker need be at the same ones."""

    async def send(self, number: int, value: Tensor, clock: int) -> None:
        """Begin to exchange the layout's tensor `number` (numel of it,) at step `clock`; it returns before it has come."""

    async def receive(self, numbers: Sequence[int]) -> list[Tensor]:
        """Wait for the means over all workers (numel of each,) of tensors that were sent."""


class InPlace(Protocol):
    """A way to exchange gradients that leaves the merged ones in their place, and copies none where the runtime can do without.

    `sends` is whether they leave the worker; only then must they be dense.
    """

    @property
    def sends(self) -> bool: ...

    async def exchange_parts(self, parts: Sequence[Tensor]) -> Response:
        """As `Channel.exchange` of the vector that `parts` are in order; the response is to step on them.

        Parts are flat, contiguous, of one type and on one device, and no two share memory.
        """


class Late(Protocol):
    """Responses to updates that come some steps after these were sent; meanwhile the worker steps on."""

    def due(self, clock: int) -> bool:
        """Whether the worker takes a response over after step `clock`."""

    @property
    def under_way(self) -> bool:
        """Whether there is a response that was not taken over."""

    async def collect(self) -> Response:
        """Wait for it."""


class RowWrites(NamedTuple):
    """How many rows workers wrote to weights that they share without locks, and how many of these writes were lost."""

    written: int
    lost: int


class Channel(Protocol):
    """A worker's side of a topology, for one run. Only communication happens in its coroutines."""

    @property
    def in_place(self) -> InPlace | None:
        """Another way to `exchange` gradients; None where they must be one vector."""

    @property
    def buckets(self) -> Buckets | None:
        """Another way to `exchange`, in parts; None where a value is sent as a whole. Known after `establish`."""

    @property
    def tensors(self) -> Tensors | None:
        """Another way to `exchange` gradients, tensor by tensor; None where a value is sent as a whole."""

    @property
    def late(self) -> Late | None:
        """Where responses to `exchange` of updates come later, and it itself brings none; None where it brings them."""

    @property
    def collective(self) -> CollectiveOperations | None:
        """What makes sums of other things than the exchange's value, among its workers; None where they do not act together."""

    @property
    def writes(self) -> RowWrites | None:
        """What all workers wrote to shared weights; known after `finish`, at the first of them. None where nothing is counted."""

    async def establish(self, initial: InitialState) -> Response:
        """Make all begin with the weights of worker 0."""

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        """Send `value` (numel,) after step `clock`; the response is what is to be done.

        Where the payload is NOTHING, `value` are the rows of the layout that the step has written, counted over all its tensors.
        """

    async def finish(self) -> Response:
        """Bring the run to its end: what is on its way arrives, and all get the final weights."""

    async def drain(self, step: int) -> str:
        """Have all that was sent arrive, before a checkpoint after `step`; every worker does so, and sends nothing until it is written.

        Servers write their state. Returns why one of them could not, as a sentence; empty where all have.
        """

    def export(self) -> StateTree:
        """As `pieces.state.Stateful`, after `drain`."""

    def restore(self, state: StateTree) -> None:
        """As `pieces.state.Stateful`, after `establish`."""

    def states(self) -> list[tuple[State, Tensor]]:
        """The codec's states and their residuals, in the order of the flat vector (for checkpoints and the conservation law).

        What was given to `exchange` and is neither sent nor in a response is in the residuals. Before `establish` there are none.
        """


class ServerSide(Protocol):
    """The servers of a topology. Frozen settings."""

    def count(self, workers: int) -> int:
        """How many servers there are for that many workers."""

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        """What each of so many servers holds of a vector of `layout`, where servers hold the weights."""

    def serve(self, agreement: Agreement, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """A server's whole life."""


class PeerChannel(Channel, Protocol):
    """The channel of an actor that exchanges with peers whenever it has something, and takes in what they send at other times too."""

    @property
    def slowest(self) -> float:
        """The least clock that a peer has sent; infinite where all have finished."""

    def may_proceed(self, clock: int) -> bool:
        """Whether one that has done step `clock` need not wait for peers."""

    async def wake(self) -> None:
        """Have `listen` return."""

    async def listen(self) -> Response:
        """Wait until a peer has sent something, or for `wake`, and bring what may be merged."""


class Topology(Protocol):
    """Frozen settings; makes a channel for a worker."""

    @property
    def traits(self) -> TopologyTraits:
        """What it declares of itself."""

    @property
    def result(self) -> ResultSource:
        """Whose weights are the result of a run."""

    def workers(self, available: int) -> int:
        """How many of the available workers it uses."""

    @property
    def service(self) -> ServerSide | None:
        """What its servers do; None where it has none."""

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""


def server_count(topology: Topology, workers: int) -> int:
    """How many servers a topology needs for that many workers."""
    return 0 if topology.service is None else topology.service.count(workers)
