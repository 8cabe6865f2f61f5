"""The sums and exchanges that are charged in closed form, as effects of the scheduler's tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from polyrhythm.core.kernel.effects import NativeExchange, NativeReduce, NativeReduceInPlace
from polyrhythm.core.simulator.actors import PENDING, VirtualTask
from polyrhythm.core.simulator.closed_exchanges import ClosedExchanges
from polyrhythm.core.simulator.collectives import Reductions
from polyrhythm.core.simulator.event_queue import EventQueue
from polyrhythm.core.simulator.mailroom import Mailroom


@dataclass(frozen=True, slots=True)
class NativeSums:
    """Makes the sums of `NativeReduce` effects when the last worker has come; `reductions` is None where they travel as messages."""

    queue: EventQueue
    mailroom: Mailroom
    reductions: Reductions | None
    wake: Callable[[VirtualTask, Any], None]

    def reduce(self, task: VirtualTask, effect: NativeReduce) -> object:
        """Have `task` wait for the sum; None where it is left to messages."""
        if self.reductions is None:
            return None
        gathering = self.reductions.join(task, effect)
        if gathering is not None:
            total, seconds, nbytes, messages = self.reductions.settle(gathering)
            parts = len(gathering.came)
            for rank, (waiting, _) in gathering.came.items():
                share = nbytes // parts + (rank < nbytes % parts), messages // parts + (rank < messages % parts)
                self.mailroom.charge(waiting.actor, *share)
                self.queue.at(self.queue.now + seconds, (self._reduced, waiting, total))
        return PENDING

    def _reduced(self, task: VirtualTask, total: torch.Tensor) -> None:
        """Resume a worker with a separate copy of the sum, made only now."""
        self.wake(task, total.clone())


def native_handlers(
    queue: EventQueue, mailroom: Mailroom, reductions: Reductions | None, wake: Callable[[VirtualTask, Any], None]
) -> dict[type, Callable[[VirtualTask, Any], object]]:
    """The scheduler's handlers of native effects, all of which it leaves to messages without `reductions`."""
    exchanges = ClosedExchanges(queue, mailroom, None if reductions is None else reductions.link, wake)
    return {
        NativeReduce: NativeSums(queue, mailroom, reductions, wake).reduce,
        NativeReduceInPlace: lambda task, effect: None,
        NativeExchange: exchanges.exchange,
    }
