"""Tracks the workers whose gradients of a step are complete in a block store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from polyrhythm.core.kernel.view import View


class GradientCount:
    """Counts, by step and worker, the slices that have its gradient; `step` is the earliest that counts, `view` has who is not lost.

    Steps differ where the crew has changed: some workers may repeat one that others have completed, which nobody else then does.
    """

    def __init__(self, workers: Sequence[str], slices: int) -> None:
        self.workers = tuple(workers)
        self.view = View.of(workers)
        self.slices = slices
        self.step = 1
        self.counts: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def stored(self, worker: str, step: int) -> None:
        """A slice has a gradient; one of an earlier step is of a worker that was lost."""
        if step >= self.step:
            self.counts[step][worker] += 1

    def complete(self) -> tuple[int, list[str]]:
        """A step, and the workers whose gradients are summed, by rank, when those of all that are left are there; none before that.

        Then later steps are counted. A lost worker counts if it was lost after its last block had come.
        """
        for step, counts in sorted(self.counts.items()):
            whole = [worker for worker in self.workers if counts[worker] == self.slices]
            if whole and not set(self.view.members) - set(whole):
                self.step = step + 1
                self.counts = defaultdict(Counter, {later: each for later, each in self.counts.items() if later > step})
                return step, whole
        return 0, []
