"""What a run that adapts says of its looks: when it looked, what it saw, and what it decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from polyrhythm.tools.report.diagnosis import Cause

SEEN = "looks"
"""The entry in the record of each part of a run with what was seen before it, and when the next look is."""
_NOTABLE = 0.1
"""A fault is followed that should gain this part of the time."""


def untold(sentence: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks at one run; each sentence is given to `tell` at once, and kept in `told`."""

    tell: Callable[[str], None]
    told: list[str] = field(default_factory=list)

    def noted(self, following: int | None = None) -> dict[str, str]:
        """The note in the record of the next part, at whose end the run is looked at after `following` steps of all; None: never."""
        return {SEEN: "\n".join([*self.told, *([] if following is None else [f"The run is looked at after {following} steps."])])}

    def saw(self, steps: int, faults: Sequence[Cause], following: int | None) -> list[Cause]:
        """Say which faults showed after so many steps, and what follows; where nothing does, the next look is after `following` steps.

        Returns those that are worth a change.
        """
        notable = [each for each in faults if each.gain >= _NOTABLE]
        if notable:
            found = "; ".join(f"{each.kind}: {each.finding.rstrip('.')}" for each in notable)
            self._say(f"After {steps} steps the run was looked at. {found}. What suits such machines is searched for.")
            return notable
        small = max(faults, key=lambda each: each.gain, default=None)
        found = (
            "No worker and no line is at fault"
            if small is None
            else f"The fault that was found ({small.kind}, {small.where}) would gain {small.gain:.0%}, too little for a change"
        )
        then = "It goes on as it is, and is not looked at again" if following is None else f"It goes on as it is until step {following}"
        self._say(f"After {steps} steps the run was looked at. {found}. {then}.")
        return []

    def decided(self, advice: str, changed: bool) -> None:
        """Say what the search has found, and whether the run is changed."""
        self._say(f"{advice} {'It is changed.' if changed else 'It goes on as it is.'}")

    def too_late(self, steps: int, wanted: int) -> None:
        """Say that the run was over before a look."""
        self._say(f"The run was over after {steps} steps, before it could be looked at after {wanted}.")

    def _say(self, sentence: str) -> None:
        self.told.append(sentence)
        self.tell(sentence)
