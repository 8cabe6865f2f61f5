"""The steps of a replay: one after the other in a blocking program, or all in one coroutine, which takes a fraction of the real time.

What is recorded, sent and waited for is the same. A coroutine takes the steps where nothing but one exchange follows each of them;
`in_coroutine` says where that is.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Computed, Stepped, Waited
from polyrhythm.core.protocols.local import PlainSteps
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.training.worker import Worker

Travel = Callable[[], Coroutine[Effect[Any], Any, None]]

_PLAIN = (Payload.GRADIENT, Payload.UPDATE, Payload.WEIGHTS)


class ReplayedSteps(Protocol):
    """Takes the steps of one worker."""

    def take(self, steps: int) -> None:
        """Take so many steps, the next ones."""


@dataclass(frozen=True, slots=True)
class CountedBatch:
    """One batch of so many `samples`, which are counted and not there."""

    worker: Worker
    samples: int

    def __iter__(self) -> Iterator[None]:
        self.worker.count(self.samples)
        yield None


@dataclass(frozen=True, slots=True)
class BlockingSteps:
    """Calls `optimizer.step()` as a training function does, once for each of `batches`, which `travel` lets travel alone."""

    worker: Worker
    model: nn.Module
    optimizer: torch.optim.Optimizer
    samples: int
    batches: Iterable[Any]
    travel: Travel | None = None

    def take(self, steps: int) -> None:
        """Take so many steps, the next ones."""
        for _ in range(steps):
            for _ in self.batches:
                if self.worker.overlaps:
                    _go_forward(self.model)
                    _go_backward(self.model)
                self.optimizer.step()


@dataclass(frozen=True, slots=True)
class CoroutineSteps:
    """Takes one step of `part` by `first`, which sees that all is in order, and the others in a coroutine."""

    first: BlockingSteps
    part: Part

    def take(self, steps: int) -> None:
        """Take so many steps, the next ones."""
        self.first.take(min(steps, 1))
        if steps > 1:
            self.part.context.perform_steps(self._others(steps - 1))

    async def _others(self, count: int) -> None:
        part, samples, travel = self.part, self.first.samples, self.first.travel
        state, port, record, note = part.local.state, part.port, part.context.record, self.first.worker.steps.note
        name, now = port.name, port.now
        for _ in range(count):
            begun = now()
            await port.compute_step()
            if (end := now()) > begun:
                record(Computed(end, name, end - begun))
            state.samples += samples
            if (pending := part.step()) is not None:
                since = now()
                await port.sleep(0.0)  # a program that performs a coroutine is behind all that is due
                response = await pending.start()
                if (end := now()) > since:
                    record(Waited(end, name, end - since))
                pending.conclude(response)
            note(samples)
            if travel is not None:
                since = now()
                await port.sleep(0.0)
                await travel()
                if (end := now()) > since:
                    record(Waited(end, name, end - since))


@dataclass(frozen=True, slots=True)
class WeightsSteps:
    """Like `CoroutineSteps`, of a part that exchanges weights: what it gets is not mixed in, because all weights are zero and stay so."""

    first: BlockingSteps
    part: Part

    def take(self, steps: int) -> None:
        """Take so many steps, the next ones."""
        self.first.take(min(steps, 1))
        if steps > 1:
            self.part.context.perform_steps(self._others(steps - 1))

    async def _others(self, count: int) -> None:
        part, context, samples, travel = self.part, self.part.context, self.first.samples, self.first.travel
        local, port, record, worker = part.local, part.port, context.record, self.first.worker
        name, now, state, exchange, rates = port.name, port.now, local.state, part.channel.exchange, part.payload.rates()
        computes, yields = port.compute_step(), port.sleep(0.0)
        clock, used, zeros = state.clock, worker.samples, state.weights
        for number in range(count):
            begun = now()
            await computes
            if (end := now()) > begun:
                record(Computed(end, name, end - begun))
            clock += 1
            state.clock = clock
            if local.exchanges:
                begun = end
                await yields  # a program that performs a coroutine is behind all that is due
                await exchange(zeros, clock, rates)
                if (end := now()) > begun:
                    record(Waited(end, name, end - begun))
            if number < count - 1:
                used += samples
                record(Stepped(end, name, clock, used, context.bytes_sent))
            else:
                worker.steps.note(samples * count)
            if travel is not None:
                await yields
                await travel()
                if (begun := now()) > end:
                    record(Waited(begun, name, begun - end))


Taking = Callable[[Worker, BlockingSteps], ReplayedSteps]
"""Chooses how a worker takes its steps."""


def in_program(worker: Worker, blocking: BlockingSteps) -> ReplayedSteps:
    """The steps in the program, where merging takes a time that was measured, for which it must wait."""
    return blocking


def in_coroutine(worker: Worker, blocking: BlockingSteps) -> ReplayedSteps:
    """The steps of `worker` in a coroutine, where each of them is followed by one exchange and by nothing that blocks the program."""
    replicas = worker.attached
    if len(replicas) != 1 or len(replicas[0].parts) != 1 or worker.overlaps or replicas[0].plan.strategy.chooses:
        return blocking
    part = replicas[0].parts[0]
    local = part.local
    if local.inner or local.rule.beside or local.control.measures or local.agreement.payload not in _PLAIN:
        return blocking
    plain = local.agreement.local == PlainSteps() and part.channel.offers == NOTHING
    if local.agreement.payload is Payload.WEIGHTS and plain:
        return WeightsSteps(blocking, part)
    return CoroutineSteps(blocking, part)


def _go_forward(model: nn.Module) -> None:
    """Call every module, the first first: what a forward pass waits for is waited for."""
    for module in model.modules():
        module(None)


def _go_backward(model: nn.Module) -> None:
    """Give every parameter a gradient of zeros, the last first, as a backward pass would."""
    for parameter in reversed(list(model.parameters())):
        parameter.grad = None
        parameter.backward(torch.zeros_like(parameter))  # type: ignore[no-untyped-call]
