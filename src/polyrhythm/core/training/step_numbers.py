"""The number of a worker's step, where it has several models or tables: they may step together, in turns, or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyrhythm.core.protocols.common_state import CommonState
from polyrhythm.core.trees import StateTree


class StepNumbers:
    """Counts the steps of a worker that has `held`: in each iteration as many as the one takes that takes most.

    So models that step in the same iterations count as one, and a model that is trained after another counts on. An iteration ends at
    `ends`; outside of loops it ends before the second step of one of them (`begins`).
    """

    def __init__(self, held: Callable[[], Sequence[CommonState]]) -> None:
        self._held = held
        self._before = 0
        """The steps of earlier iterations."""
        self._clocks: list[int] = []
        """The steps that each had taken in earlier iterations."""
        self._rest: list[int] = []
        """The places of those that took no step in the iteration before."""

    @property
    def clock(self) -> int:
        """The steps that the worker has taken, or is taking."""
        held = self._held()
        if len(held) < 2:
            return held[0].clock if held else 0
        return self._before + max(0, *self._taken(held))

    def ends(self) -> None:
        """An iteration of a loop is over."""
        held = self._held()
        if len(held) > 1 and any(taken := self._taken(held)):
            self._before += max(0, *taken)
            self._clocks[: len(held)] = [each.clock for each in held]
            self._rest = [place for place, steps in enumerate(taken) if not steps]

    def begins(self, each: CommonState) -> None:
        """A step of one of them follows, outside of loops."""
        held = self._held()
        if len(held) > 1 and self._taken(held)[[id(other) for other in held].index(id(each))] > 0:
            self.ends()

    def number_of(self, clocks: Sequence[int]) -> int:
        """The number of the last of these steps of the first of `held`, each by its own count; 0 is none. Who rests is left out."""
        held = self._held()
        if len(held) < 2:
            return max(clocks, default=0)
        known = zip(clocks, self._starts(held), self._taken(held), strict=False)
        stepping = [(clock, start) for place, (clock, start, taken) in enumerate(known) if clock and (taken or place not in self._rest)]
        return max((self._before + clock - start for clock, start in stepping), default=0)

    def export(self) -> StateTree:
        """What a worker continues with that has the same steps; nothing of one that has one model."""
        return {"numbers": {"before": self._before, "clocks": list(self._clocks)}} if len(self._held()) > 1 else {}

    def restore(self, state: StateTree) -> None:
        """Continue from the state of a worker, which may have no numbers; before or after its models are there."""
        numbers = state.get("numbers", {"before": 0, "clocks": []})
        self._before, self._clocks, self._rest = numbers["before"], list(numbers["clocks"]), []

    def _taken(self, held: Sequence[CommonState]) -> list[int]:
        return [each.clock - start for each, start in zip(held, self._starts(held), strict=True)]

    def _starts(self, held: Sequence[CommonState]) -> list[int]:
        """The steps that each had taken before; a resumed worker may have these of models that are still to come."""
        return [*self._clocks, *[0] * len(held)][: len(held)]
