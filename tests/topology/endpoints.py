"""Endpoints for tests that make channels and servers themselves."""

from collections.abc import Callable

from polyrhythm.core import rng
from polyrhythm.core.checkpoints.plan import CheckpointPlan, ServerFiles, ServerMemory
from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.group import Group, servers, workers
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.snapshots import Snapshots
from polyrhythm.core.protocols.topology import ServerEndpoint, WorkerEndpoint


def worker_end(port: Port, count: int, shards: int = 0, seed: int = 0) -> WorkerEndpoint:
    """The worker of `port` among `count`, with `shards` servers."""
    return WorkerEndpoint(Group.of_workers(count, rank_of(port.name), seed), servers(shards), port)


def server_end(port: Port, count: int, shards: int = 1, record: Callable[[AnyEvent], object] = lambda event: None) -> ServerEndpoint:
    """The server of `port` among `shards`, with `count` workers."""
    group = Group("servers", servers(shards), rank_of(port.name))
    return ServerEndpoint(group, workers(count), port, record, Snapshots(0), ServerFiles(CheckpointPlan(), port.name, "", ServerMemory()))  # type: ignore[arg-type]


def context_of(count: int, rank: int = 0, clock: int = 0) -> ExchangeContext:
    """An exchange among `count` workers, as the one of `rank` sees it."""
    return ExchangeContext(Group.of_workers(count, rank), rng.stream(0, "test"), clock)
