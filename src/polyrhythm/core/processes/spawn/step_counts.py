"""The steps that each worker has completed, in memory that outlives its process: events of the last ones are lost with it.

`Processes` makes one for a run whose workers may change. Each worker writes to it, and `ProcessCrew` reads what a lost one has completed.
"""

from __future__ import annotations

import os

import numpy as np

from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.shared_memory import SharedBytes

_WORD = 8


class StepCounts:
    """A count for each place of the crew in shared `memory`; 0 for a worker that has not taken a step."""

    def __init__(self, memory: SharedBytes) -> None:
        self._memory = memory
        self._counts = memory.content.numpy().view(np.int64)

    @staticmethod
    def create(places: int) -> StepCounts:
        """New memory."""
        return StepCounts(SharedBytes.create(_WORD * places))

    @staticmethod
    def open(path: str, places: int) -> StepCounts:
        """The memory that the launcher made."""
        return StepCounts(SharedBytes.open(path, _WORD * places))

    @property
    def path(self) -> str:
        """The path by which workers open it."""
        return self._memory.path

    def follow(self, context: NodeContext, name: str) -> None:
        """Count the steps of the worker `name`, in its own thread, before anything else happens after them."""
        record, place = context.record, self._place(name)

        def observe(event: AnyEvent) -> None:
            if isinstance(event, Stepped):
                self._counts[place] = event.clock
            record(event)

        context.record = observe

    def completed(self, name: str) -> int | None:
        """The steps that the worker `name` has completed; None if it has not taken any here."""
        return int(self._counts[self._place(name)]) or None

    def begin(self, name: str) -> None:
        """The worker `name` comes in the place of an earlier one."""
        self._counts[self._place(name)] = 0

    def close(self) -> None:
        """Let no other process open it."""
        os.close(self._memory.descriptor)

    def _place(self, name: str) -> int:
        return rank_of(name) % len(self._counts)
