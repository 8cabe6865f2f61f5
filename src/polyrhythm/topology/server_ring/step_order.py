"""The order in which a server takes what workers send: the pushes of a step before those of the next."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.topology.servers.server_records import Done, Fetch, Push, Wanted, from_numbers, to_numbers


class StepOrder:
    """If the server `gathers`, the n-th push of a worker is taken when the n - 1 before of every worker were.

    So what it merges at once is of one step. A push that has to wait lets its worker read at once: the request for weights is taken alone.
    `taken` are the pushes of each worker that were taken; infinite for one that is done.
    """

    def __init__(self, workers: Sequence[str], gathers: bool) -> None:
        self.gathers = gathers
        self.taken = dict.fromkeys(workers, 0.0)
        self._held: list[Delivery] = []

    def take(self, delivery: Delivery) -> None:
        """A request has come."""
        request = from_numbers(delivery.message.numbers)
        if isinstance(request, Push) and request.wanted is not Wanted.NOTHING and not self._is_next(delivery.sender):
            fetch = Fetch(request.clock, request.version, request.wanted)
            self._held.insert(0, _with(delivery, to_numbers(fetch), ()))
            delivery = _with(delivery, to_numbers(request._replace(wanted=Wanted.NOTHING)), delivery.message.tensors)
        self._held.append(delivery)

    def next(self) -> Delivery | None:
        """The first request that may be taken."""
        waiting = set[str]()
        for place, delivery in enumerate(self._held):
            request = from_numbers(delivery.message.numbers)
            if isinstance(request, Fetch) or (
                delivery.sender not in waiting and not (isinstance(request, Push) and self._too_early(delivery.sender))
            ):
                del self._held[place]
                if isinstance(request, Push):
                    self.taken[delivery.sender] += 1
                if isinstance(request, Done):
                    self.taken[delivery.sender] = math.inf
                return delivery
            waiting.add(delivery.sender)
        return None

    def lose(self, worker: str) -> None:
        """A worker is gone, and nobody waits for it."""
        self.taken.pop(worker, None)
        self._held = [delivery for delivery in self._held if delivery.sender != worker]

    def _is_next(self, sender: str) -> bool:
        return not self._too_early(sender) and all(delivery.sender != sender for delivery in self._held)

    def _too_early(self, sender: str) -> bool:
        return self.gathers and self.taken.get(sender, 0.0) > min(self.taken.values(), default=math.inf)


def _with(delivery: Delivery, numbers: tuple[float, ...], tensors: tuple) -> Delivery:  # type: ignore[type-arg]
    message = delivery.message
    return Delivery(delivery.sender, Message(message.topic, numbers, message.text, tensors))
