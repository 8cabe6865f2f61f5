"""How a program waits for all other workers: until they have said what must be alike."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.kernel.agreement import Facts
from polyrhythm.processes.runtime.completion import Completion


class PendingAgreement:
    """One question at a time, of the actor `name`; in the loop's thread. `on_request` is given what the program says."""

    def __init__(self, name: str) -> None:
        self.on_request: Callable[[Facts, str], None] = _ignore
        self._name = name
        self._ticket: Completion | None = None

    @property
    def waits(self) -> list[str]:
        """What the program waits for, if it does."""
        return [f"{self._name} waits for the others to say what all must say alike"] if self._ticket is not None else []

    def request(self, completion: Completion, facts: Facts, remedy: str) -> None:
        """The program has said its `facts`, and waits with `completion`."""
        self._ticket = completion
        self.on_request(facts, remedy)

    def settle(self, difference: str) -> None:
        """All have spoken; the program is given `difference`, the sentence on where they differ, or empty."""
        completion, self._ticket = self._ticket, None
        if completion is not None:
            completion.finish(difference, None)


def _ignore(facts: Facts, remedy: str) -> None:
    return None
