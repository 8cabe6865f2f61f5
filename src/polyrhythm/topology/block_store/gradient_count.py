"""Tracks the workers whose gradients of a step are complete in a block store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.view import View


class GradientCount:
    """Counts, for each worker, the slices that have its gradient of `step`; `view` has those that are not lost."""

    def __init__(self, workers: Sequence[str], slices: int) -> None:
        self.view = View.of(workers)
        self.slices = slices
        self.step = 1
        self.counts: Counter[str] = Counter()

    def stored(self, worker: str, step: int) -> None:
        """A slice has a gradient; one of an earlier step is of a worker that was lost."""
        if step == self.step:
            self.counts[worker] += 1

    def complete(self) -> list[str]:
        """The workers whose gradients are summed, by rank, when those of all that are left are there; none before that.

        Then the next step is counted. A lost worker counts if it was lost after its last block had come.
        """
        whole = [worker for worker, count in self.counts.items() if count == self.slices]
        if not whole or set(self.view.members) - set(whole):
            return []
        self.step += 1
        self.counts.clear()
        return sorted(whole, key=rank_of)
