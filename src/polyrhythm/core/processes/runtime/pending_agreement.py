"""The wait of a program until all workers have sent the facts that must be equal."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.processes.runtime.completion import Completion


class PendingAgreement:
    """One round at a time, of the actor `name`; in the loop's thread. `on_request` is given the facts of the program."""

    def __init__(self, name: str) -> None:
        self.on_request: Callable[[Facts, str], None] = _ignore
        self._name = name
        self._completion: Completion | None = None

    @property
    def waits(self) -> list[str]:
        """The wait of the program in words; empty if it does not wait."""
        return [f"{self._name} waits for the facts of the others that must be equal"] if self._completion is not None else []

    def request(self, completion: Completion, facts: Facts, remedy: str) -> None:
        """The program has given its `facts`, and waits with `completion`."""
        self._completion = completion
        self.on_request(facts, remedy)

    def settle(self, difference: str) -> None:
        """The facts of all have come; the program is given `difference`, the sentence on where they differ, or empty."""
        completion, self._completion = self._completion, None
        if completion is not None:
            completion.finish(difference, None)


def _ignore(facts: Facts, remedy: str) -> None:
    return None
