"""What the workers of a run hold in common: a model that each has attached, a table that each has opened."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.trees import StateTree


class CommonState(Protocol):
    """One worker's side of it."""

    @property
    def clock(self) -> int:
        """Steps that this worker has taken."""

    def step(self, samples: int) -> None:
        """Send what this worker did, and take over what is due: one step, on so many samples."""

    def finish(self) -> None:
        """Bring it to its end; called by every worker, at a different time."""

    def drain(self, step: int) -> str:
        """As `pieces.topology.Channel.drain`."""

    def export(self) -> StateTree:
        """As `pieces.state.Stateful`, after `drain`."""

    def restore(self, state: StateTree) -> None:
        """As `pieces.state.Stateful`, before the first step."""


class Opening(Protocol):
    """What worker 0 announces to the servers that are to keep something besides models: a `msgspec.Struct` with a tag."""

    @property
    def scope(self) -> str:
        """What its topics begin with."""

    def serve(self, consistency: Consistency, endpoint: ServerEndpoint, given: Sequence[Tensor]) -> Coroutine[Effect[Any], Any, None]:
        """A server's whole life with it; `given` are the tensors that came with the announcement."""
