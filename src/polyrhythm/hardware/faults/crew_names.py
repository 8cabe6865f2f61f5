"""The names of the workers of a crew that changes, as rules of faults foresee them: as runs do, in `kernel.view.next_name`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Newcomers:
    """Who may join a run: it has that many `places`, and a lost worker is replaced at once, if `replaced`."""

    places: int = 0
    replaced: bool = False

    @staticmethod
    def of(actors: Sequence[str]) -> Newcomers:
        """Those of a run whose places are those of its first workers."""
        return Newcomers(sum(actor.startswith("worker/") for actor in actors))

    def may_be(self, name: str, joins: int) -> bool:
        """True if a worker may have this name later, where `joins` are to join."""
        found = re.fullmatch(r"worker/(\d+)", name)
        return found is not None and (self.replaced or (joins > 0 and int(found[1]) < self.places * (1 + joins)))


class CrewNames:
    """The workers that are `present`, of those who begin as `actors`, and how the next ones are called."""

    def __init__(self, newcomers: Newcomers, actors: Iterable[str]) -> None:
        self.newcomers = newcomers
        self.present = [actor for actor in actors if actor.startswith("worker/")]
        self._last = {self._place(actor): int(actor.removeprefix("worker/")) for actor in self.present}

    def leave(self, name: str) -> None:
        """`name` is gone, with notice."""
        self.present = [actor for actor in self.present if actor != name]

    def lose(self, name: str) -> str | None:
        """`name` is lost: the name of who replaces it at once, if any."""
        self.leave(name)
        return self.join() if self.newcomers.replaced else None

    def join(self) -> str | None:
        """A worker joins: its name. It gets the first place that is free; None where there is none."""
        taken, most = {self._place(actor) for actor in self.present}, self.newcomers.places
        place = next((place for place in range(most) if place not in taken), None)
        if place is None:
            return None
        self._last[place] = self._last[place] + most if place in self._last else place
        self.present.append(f"worker/{self._last[place]}")
        return self.present[-1]

    def _place(self, actor: str) -> int:
        return int(actor.removeprefix("worker/")) % self.newcomers.places
