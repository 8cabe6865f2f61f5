"""Exchanges that are charged in closed form, as effects of the scheduler's tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from polyrhythm.core.kernel.effects import NativeExchange
from polyrhythm.core.simulator.actors import PENDING, VirtualTask
from polyrhythm.core.simulator.event_queue import EventQueue
from polyrhythm.core.simulator.mailroom import Mailroom

_Came = dict[int, tuple[float, VirtualTask, NativeExchange]]


@dataclass(frozen=True, slots=True)
class ClosedExchanges:
    """Makes those of `NativeExchange` effects when the last member has come.

    `link` is (latency in seconds, bytes per second); None where they travel as messages.
    """

    queue: EventQueue
    mailroom: Mailroom
    link: tuple[float, float] | None
    wake: Callable[[VirtualTask, Any], None]
    under_way: dict[tuple[str, str], _Came] = field(default_factory=dict)

    def exchange(self, task: VirtualTask, effect: NativeExchange) -> object:
        """Have `task` wait for its result; None where it is left to messages."""
        if self.link is None:
            return None
        key = effect.group.name, effect.topic
        came = self.under_way.setdefault(key, {})
        came[effect.group.rank] = self.queue.now, task, effect
        if len(came) == effect.group.size:
            del self.under_way[key]
            self._settle([came[rank] for rank in range(len(came))], self.link)
        return PENDING

    def _settle(self, came: list[tuple[float, VirtualTask, NativeExchange]], link: tuple[float, float]) -> None:
        form, values = came[0][2].form, [effect.value for _, _, effect in came]
        ends = form.ends([begin for begin, _, _ in came], values, *link)
        for (_, task, _), end, result, traffic in zip(came, ends, form.results(values), form.traffic(values), strict=True):
            self.mailroom.charge(task.actor, *traffic)
            self.queue.at(max(end, self.queue.now), (self.wake, task, result))
