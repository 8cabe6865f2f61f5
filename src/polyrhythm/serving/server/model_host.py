"""A machine that serves: its loaded models, a thread that computes one batch at a time, and the batch loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from polyrhythm.serving.server.answers import Failed, ServerOutcome
from polyrhythm.serving.server.batch_loop import BatchLoop
from polyrhythm.serving.server.served_model import Compute, ServedModel
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan
from polyrhythm.serving.sessions import ServingMachine
from polyrhythm.serving.turns import DutyTurns


class ModelHost:
    """The models of one machine's plan; a new plan is loaded beside the old one, which serves until all of it is ready.

    The inputs of a batch that have several shapes, as texts have, are computed one shape after the other, which takes longer than planned.
    Batches are computed in a thread of their own, so that drops are answered meanwhile, and models are loaded in another. Call everything
    in one event loop.
    """

    def __init__(self, machine: ServingMachine, models: Mapping[str, ServedModel], turns: DutyTurns) -> None:
        self.machine = machine
        self._models = models
        self._loaded: dict[str, Compute] = {}
        self._computing = ThreadPoolExecutor(1, "batches")
        self._loading = ThreadPoolExecutor(1, "loading")
        self._installing = asyncio.Lock()
        self._loop = BatchLoop(MachinePlan(machine, 1.0, ()), turns, self._run)

    @property
    def plan(self) -> MachinePlan:
        """The plan that is followed."""
        return self._loop.plan

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return self._loop.waiting

    async def install(self, plan: MachinePlan) -> None:
        """Load what the plan has and this machine has not, follow it, and forget the models that it does not have."""
        async with self._installing:
            wanted = dict.fromkeys(slot.model for slot in plan.slots)
            for name in wanted:
                if name not in self._loaded:
                    load = self._models[name].load
                    self._loaded[name] = await asyncio.get_running_loop().run_in_executor(self._loading, load)
            self._loop.install(plan)
            self._loaded = {name: each for name, each in self._loaded.items() if name in wanted}

    async def answer(self, session: str, payload: Any, patience: float) -> ServerOutcome:
        """The outcome of a request; an input of another form than the model's is refused alone, before it is in a batch with others."""
        slot = self.plan.slot(session)
        problem = None if slot is None else self._models[slot.model].form.problem(payload)
        if problem is not None:
            return Failed(asyncio.get_running_loop().time(), problem, theirs=True)
        return await self._loop.answer(session, payload, patience)

    async def drain(self) -> None:
        """Take no more requests, and wait until those that were taken are answered."""
        await self._loop.drain()
        self._computing.shutdown(wait=False)
        self._loading.shutdown(wait=False)

    def _run(self, slot: DutySlot, payloads: Sequence[Any]) -> Awaitable[Sequence[Any]]:
        """Begin a batch with the model that is loaded now: a plan that is installed before it ends may forget that model."""
        compute = self._loaded[slot.model]
        return asyncio.get_running_loop().run_in_executor(self._computing, in_groups, compute, payloads)


def in_groups(compute: Compute, payloads: Sequence[np.ndarray]) -> list[Any]:
    """The results of a batch, in its order, with one call for the inputs of each shape: only equal shapes can be computed at once.

    What a call raises stands in place of the results of its group, and of no other.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, payload in enumerate(payloads):
        groups.setdefault(payload.shape, []).append(place)
    results: list[Any] = [None] * len(payloads)
    for places in groups.values():
        for place, result in zip(places, _group(compute, [payloads[place] for place in places]), strict=True):
            results[place] = result
    return results


def _group(compute: Compute, payloads: Sequence[np.ndarray]) -> Sequence[Any]:
    """The results of inputs of one shape; what the model raised, in place of each, if it did."""
    try:
        results = compute(payloads)
        if len(results) != len(payloads):
            raise ValueError(f"the model gave {len(results)} results for a batch of {len(payloads)}")
    except Exception as problem:  # a model may raise anything; each of its clients is told
        return [problem] * len(payloads)
    return results
