"""The batch loop of one machine in real time: the queue and the decisions of the simulator, on the clock of asyncio."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from polyrhythm.serving.machine_queue import MachineQueue
from polyrhythm.serving.requests import Dropped, InferenceRequest, Ok, Overdue
from polyrhythm.serving.server.answers import MOVED, SHUTDOWN, ServerOutcome, failure
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan
from polyrhythm.serving.turns import DutyTurns

RunBatch = Callable[[DutySlot, Sequence[Any]], Awaitable[Sequence[Any]]]
"""Compute the results of the payloads of one batch, in their order, without holding up the event loop.

It is called in the moment in which the batch is chosen, and awaited later. An exception in place of a result fails that request alone.
"""
_AT_ONCE = 4
"""The results that are sent in one turn of the event loop."""


class BatchLoop:
    """The requests that wait at a machine, and the one batch that runs there.

    It decides when a request comes, when a batch ends, and when the head of a queue must be given up: so a drop is answered at its moment,
    also while a batch runs. Call everything in one event loop.
    """

    def __init__(self, plan: MachinePlan, turns: DutyTurns, run: RunBatch) -> None:
        self._queue = MachineQueue(plan, turns)
        self._run = run
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[ServerOutcome]] = {}
        self._batch: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def plan(self) -> MachinePlan:
        """The plan that is followed."""
        return self._queue.plan

    @property
    def waiting(self) -> int:
        """The number of requests that wait, without the batch that runs."""
        return len(self._queue)

    async def answer(self, session: str, payload: Any, patience: float) -> ServerOutcome:
        """Wait for the outcome of a request that is worth an answer for `patience` seconds from now.

        A caller that is cancelled has gone: its request is left out of the batches that begin later.
        """
        now = self._now()
        if self._ending:
            return Dropped(now, SHUTDOWN)
        if self._queue.plan.slot(session) is None:
            return Dropped(now, MOVED)
        request = InferenceRequest(next(self._numbers), session, now, now + patience, payload)
        answer: asyncio.Future[ServerOutcome] = asyncio.get_running_loop().create_future()
        self._answers[request.number] = answer
        self._idle.clear()
        self._queue.add(request)
        self._decide()
        try:
            return await answer
        except asyncio.CancelledError:
            self._queue.leave(request.number)
            raise

    def install(self, plan: MachinePlan) -> None:
        """Follow another plan from now on; requests of sessions that it does not have are given back as moved."""
        for request in self._queue.install(plan):
            self._settle(request, Dropped(self._now(), MOVED))
        self._decide()

    async def drain(self) -> None:
        """Take no more requests, and wait until those that were taken are answered."""
        self._ending = True
        self._decide()
        await self._idle.wait()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _decide(self) -> None:
        """Give up what cannot be served, start a batch if the machine is free, and set the moment of the next decision."""
        now, wake = self._now(), math.inf
        if self._batch is None:
            chosen = self._queue.choose(now)
            for request, reason in chosen.drops:
                self._settle(request, Dropped(now, reason))
            if chosen.slot is not None:
                # called here and not in the task: a plan that is installed before the task begins may forget the model
                results = self._run(chosen.slot, [request.payload for request in chosen.batch])
                self._batch = asyncio.get_running_loop().create_task(self._compute(chosen.slot, chosen.batch, results))
            elif chosen.wake is not None:
                wake = chosen.wake
        else:
            for request, reason in self._queue.expired(now):
                self._settle(request, Dropped(now, reason))
        if self._batch is not None:
            wake = self._queue.drop_time()
        self._arm(max(now, wake))
        self._rest()

    def _rest(self) -> None:
        """Say that nothing runs or waits, if so."""
        if self._batch is None and not self._answers:
            self._idle.set()

    def _arm(self, moment: float) -> None:
        """Decide again at `moment`, in place of what was set before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if moment == math.inf else asyncio.get_running_loop().call_at(moment, self._decide)

    async def _compute(self, slot: DutySlot, batch: tuple[InferenceRequest, ...], running: Awaitable[Sequence[Any]]) -> None:
        results: Sequence[Any]
        try:
            results = await running
            if len(results) != len(batch):
                raise ValueError(f"{slot.model} gave {len(results)} results for a batch of {len(batch)}")
        except Exception as problem:  # a model may raise anything; each of its clients is told, and the next batch is tried
            results = [problem] * len(batch)
        now = self._now()
        finished = now + slot.profile.after
        # the next batch begins, and drops are answered, before what is computed is sent: that takes milliseconds for a large batch
        self._batch = None
        self._decide()
        for place, (request, result) in enumerate(zip(batch, results, strict=True)):
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)  # what is due meanwhile, such as a drop, is not behind all of them
            done = (Ok if finished <= request.deadline else Overdue)(now, result)
            self._settle(request, failure(now, result) if isinstance(result, Exception) else done)
        self._rest()

    def _settle(self, request: InferenceRequest, outcome: ServerOutcome) -> None:
        answer = self._answers.pop(request.number)
        if not answer.done():
            answer.set_result(outcome)
