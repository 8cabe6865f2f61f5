"""State that the workers of a run have in common: a model that each has attached, or a table that each has opened."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.trees import StateTree

Donor = Callable[[], StateTree]
"""Reads the state of a worker that others may join."""


class CommonState(Protocol):
    """One worker's side of a common state."""

    @property
    def clock(self) -> int:
        """The number of steps that this worker has taken."""

    def step(self, samples: int) -> None:
        """Take one step, on so many samples: send this worker's contribution, and take over what is due."""

    def finish(self) -> None:
        """Bring the state to its end; each worker calls it at a different time."""

    def drain(self, step: int) -> str:
        """Have all that was sent arrive before a checkpoint after `step`, as `Channel.drain` does.

        Returns the first error as a sentence, else "".
        """

    def export(self) -> StateTree:
        """The state of this worker, after `drain`; see `Stateful`."""

    def restore(self, state: StateTree) -> None:
        """Take over what was exported, before the first step; see `Stateful`."""

    def take_over(self, state: StateTree, own: bool, left: Sequence[StateTree] = (), donor: Donor | None = None) -> None:
        """Before the first step, take over what was exported among other workers: this worker's `own` state, or that of one that it joins.

        What workers that have `left` did not send is sent by this one: these are their states. The state of the `donor`, if there is one,
        serves for an exchange in which this worker had no part.
        """


class Opening(Protocol):
    """Worker 0's announcement to the servers that they keep something other than a model: a `msgspec.Struct` with a tag."""

    @property
    def scope(self) -> str:
        """The prefix of its topics."""

    def serve(self, consistency: Consistency, endpoint: ServerEndpoint, given: Sequence[Tensor]) -> Coroutine[Effect[Any], Any, None]:
        """Run a server's side until it ends; `given` are the tensors that came with the announcement."""
