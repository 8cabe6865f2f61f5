"""The pass through data whose request begins an iteration, in loops that draw from several."""

from __future__ import annotations

from collections.abc import Iterable

from polyrhythm.core.training.loops import UserLoop


class Leader:
    """Finds the pass that is drawn from first between two steps: a request for its next item completes the iteration before."""

    def __init__(self) -> None:
        self._leading: UserLoop | None = None
        self._drawn: UserLoop | None = None

    @property
    def waits(self) -> bool:
        """True if the leading pass has handed out a batch on which no step was taken."""
        return self._leading is not None and not self._leading.over and self._leading.fresh > 0

    def drew(self, loop: UserLoop) -> None:
        """Note that a batch was drawn from `loop`; a pass that a `for` iterates leads before one that `next()` does."""
        loop.fresh += 1
        if self._drawn is None or (self._drawn.detached and not loop.detached):
            self._drawn = loop

    def begins(self, loop: UserLoop, under_way: Iterable[UserLoop]) -> bool:
        """True if a request for an item of `loop` begins an iteration: every batch that was drawn for the one before is used."""
        if self._leading is None or self._leading.over:
            ready = not any(each.fresh for each in under_way)
        else:
            ready = not self._leading.fresh and (loop.number < 0 or loop is self._leading)
        if ready:
            self._drawn = None
        return ready

    def stepped(self, under_way: Iterable[UserLoop]) -> None:
        """Note that a step was taken on the batches that were drawn."""
        if not self.waits:
            self._leading = self._drawn or self._leading
        self._drawn = None
        for loop in under_way:
            loop.fresh = 0
