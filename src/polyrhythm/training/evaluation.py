"""How good the result was at the moments of a grid, found when the training is over."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.errors import WorkloadError, diverged
from polyrhythm.kernel.events import Evaluated
from polyrhythm.kernel.group import Group
from polyrhythm.kernel.job import WorkerContext
from polyrhythm.kernel.names import worker
from polyrhythm.pieces.division import Divided
from polyrhythm.pieces.snapshots import Snapshots, before, index_at, moment, together
from polyrhythm.strategy.part import Part
from polyrhythm.strategy.replica import Replica
from polyrhythm.strategy.service import request_snapshots
from polyrhythm.strategy.snapshots import collect, new_snapshots, show
from polyrhythm.strategy.strategy_plan import StrategyPlan
from polyrhythm.training.numbers import number
from polyrhythm.training.untouched import untouched

Evaluate = Callable[..., Mapping[str, Any]]


@dataclass(slots=True)
class Followed:
    """A part of a replica, and its model; `buffers` are the model's floating-point ones, at the first part of it.

    `snapshots` has those of the step that was under way at a moment, as its forward pass left them. A copy is taken when a moment has
    passed; what they were before that pass is then gone, and keeping it would take a copy at every step.
    """

    part: Part
    model: nn.Module
    buffers: list[Tensor]
    snapshots: Snapshots

    def look(self, now: float) -> None:
        """Keep the buffers, if a moment of the grid has passed since they were looked at."""
        if self.snapshots.due(now):
            self.snapshots.look(now, _flat(self.buffers))


@dataclass(slots=True)
class Evaluation:
    """The evaluation that `worker.evaluate` requested, at one worker.

    `seconds` of the run's clock went into evaluating; the clock showed `began` when the run was resumed.
    """

    plan: StrategyPlan
    context: WorkerContext
    function: Evaluate | None = None
    seconds: float = 0.0
    began: float = 0.0
    _followed: list[Followed] = field(default_factory=list)
    _steps: list[tuple[float, int, int]] = field(default_factory=list)
    _agreed: bool = False

    @property
    def group(self) -> Group:
        """All workers."""
        return self.plan.group(self.context.port.name)

    def follow(self, replica: Replica) -> None:
        """Another model was attached."""
        model = replica.model
        for part in replica.parts:
            known = any(each.model is model for each in self._followed)
            buffers = [] if known else [b for b in model.buffers() if b.is_floating_point() and b.numel()]
            self._followed.append(Followed(part, model, buffers, new_snapshots(self.group.size)))
        self._want()

    def request(self, function: Evaluate) -> None:
        """Evaluate by `function` from now on."""
        if self.function is not None:
            raise WorkloadError("worker.evaluate was called twice: give one function that returns all metrics.")
        if not callable(function):
            raise WorkloadError(f"worker.evaluate got {function!r}, which is not callable: give a function of the model.")
        self.function = function
        if self.group.rank == 0:
            self.context.perform(request_snapshots(self.context.port, self.plan.servers))
        self._want()

    def agree(self) -> None:
        """At the first step, or before a run without steps ends: raise CompositionError at all workers if only some evaluate."""
        if not self._agreed:
            self._agreed = True
            requested = {} if self.function is None else {"evaluations": "to make"}
            self.context.agree(
                requested, "call worker.evaluate at every worker, not at worker 0 alone, which makes them when the training is over."
            )

    def look(self) -> None:
        """At the beginning of an exchange: the buffers are those of the step that was under way since the last one ended."""
        if self.function is not None:
            now = self.context.port.now()
            for each in self._followed:
                each.part.look()
                each.look(now)

    def stepped(self, clock: int) -> None:
        """At the end of a step: the buffers are as they were when its exchange began."""
        if self.function is not None:
            now = self.context.port.now()
            for each in self._followed:
                each.look(now)
            if self.group.rank == 0:
                self._steps.append((now, clock, self.context.bytes_sent))

    def finish(self) -> dict[str, float]:
        """Evaluate what was kept, and the final weights, at worker 0: the metrics of the final weights."""
        if self.function is None:
            return {}
        port, ended = self.context.port, self.context.port.now()
        if self.group.rank:
            for scope, snapshots in self._own():
                self.context.perform(show(port, scope, snapshots))
            return {}
        own = {(port.name, scope): snapshots for scope, snapshots in self._own()}
        everyone = own | self.context.perform(collect(port, self._expected() - own.keys()))
        final = self.context.free(lambda: self._evaluate_all(everyone, ended))
        self.seconds = port.now() - ended
        return final

    def _want(self) -> None:
        for each in self._followed:
            holds_result = self.context.port.name in each.part.planned.plan.result_actors()
            each.part.snapshots.wanted = holds_result and self.function is not None
            each.snapshots.wanted = bool(each.buffers) and self.function is not None and self.context.port.name in self._holders()
            each.look(self.context.port.now())  # what is there before the first forward pass

    def _holders(self) -> list[str]:
        """Those whose buffers count in the end."""
        return [worker(rank) for rank in range(self.group.size if self.plan.strategy.buffers.averaged else 1)]

    def _own(self) -> list[tuple[str, Snapshots]]:
        weights = [(each.part.scope, each.part.snapshots) for each in self._followed if each.part.snapshots.wanted]
        return weights + [(f"{each.part.scope}buffers", each.snapshots) for each in self._followed if each.snapshots.wanted]

    def _expected(self) -> set[tuple[str, str]]:
        weights = {(name, each.part.scope) for each in self._followed for name in each.part.planned.plan.result_actors()}
        return weights | {(name, f"{each.part.scope}buffers") for name in self._holders() for each in self._followed if each.buffers}

    def _evaluate_all(self, everyone: Mapping[tuple[str, str], Snapshots], ended: float) -> dict[str, float]:
        final = [(each.part.parameters.flat.clone(), [b.clone() for b in each.buffers]) for each in self._followed]
        kept = list(everyone.values())
        try:
            first = index_at(self.began) + 1  # what a resumed run began with was not there from the first moment on
            for index in sorted({max(index, first) for index in together(kept)}):
                if moment(index) >= ended:
                    break
                for each, (weights, buffers) in zip(self._followed, final, strict=True):
                    self._put(each, self._at(each, index, everyone, weights), _buffers_at(each, index, everyone, buffers))
                self._record(moment(index), before(index, kept))
        finally:
            for each, (weights, buffers) in zip(self._followed, final, strict=True):
                self._put(each, weights, buffers)
        return self._record(ended, before(index_at(ended) + 1, kept))

    def _at(self, each: Followed, index: int, everyone: Mapping[tuple[str, str], Snapshots], final: Tensor) -> Tensor:
        """The result at a moment; of one that has changed nothing since, its part of the final weights."""
        plan, layout = each.part.planned.plan, each.part.parameters.layout
        actors = plan.result_actors()
        layouts = plan.held_by(layout)
        whole = all(held.numel == layout.numel for held in layouts)
        divided = None if whole else Divided.of(layout, layouts)
        parts = [final] * len(actors) if divided is None else divided.cut(final)
        present = [(name, part) for name, part in zip(actors, parts, strict=True) if (name, each.part.scope) in everyone]
        found = [everyone[name, each.part.scope].at(index) for name, _ in present]
        result = plan.result([part.cpu() if kept is None else kept for kept, (_, part) in zip(found, present, strict=True)])
        return result if divided is None else divided.join(torch.split(result, [held.numel for held in layouts]))

    @staticmethod
    def _put(each: Followed, weights: Tensor, buffers: Sequence[Tensor]) -> None:
        with torch.no_grad():
            each.part.parameters.flat.copy_(weights)
            for buffer, value in zip(each.buffers, buffers, strict=True):
                buffer.copy_(value)

    def _record(self, moment: float, since: float) -> dict[str, float]:
        assert self.function is not None
        models = list({id(each.model): each.model for each in self._followed}.values())
        with untouched(models):
            metrics = _checked(self.function(*models), moment)
        times = [each[0] for each in self._steps]
        _, clock, nbytes = self._steps[group - 1] if (group := bisect_right(times, moment)) else (0.0, 0, 0)
        self.context.record(Evaluated(moment, self.context.port.name, clock, metrics, nbytes, since))
        return metrics


def _checked(metrics: object, time: float) -> dict[str, float]:
    if not isinstance(metrics, Mapping) or not metrics:
        raise WorkloadError(
            f"The function given to worker.evaluate returned {metrics!r}: return metrics by name, such as {{'loss': loss}}."
        )
    values = {str(name): number(f"The function given to worker.evaluate returned {name} =", value) for name, value in metrics.items()}
    for name, value in values.items():
        if not math.isfinite(value):
            raise diverged(f"{name} was {value} at {time:.3g} s of the run")
    return values


def _flat(buffers: Sequence[Tensor]) -> Tensor:
    return torch.cat([buffer.detach().reshape(-1).to("cpu", torch.float64) for buffer in buffers])


def _buffers_at(each: Followed, index: int, everyone: Mapping[tuple[str, str], Snapshots], final: Sequence[Tensor]) -> list[Tensor]:
    """The mean of what the workers had at a moment; of those who have changed nothing since, what is final."""
    if not each.buffers:
        return []
    mine = [snapshots.at(index) for (_, scope), snapshots in everyone.items() if scope == f"{each.part.scope}buffers"]
    flat = torch.stack([_flat(final) if kept is None else kept for kept in mine]).mean(dim=0)
    parts = torch.split(flat, [buffer.numel() for buffer in final])
    return [part.view(buffer.shape).to(buffer.dtype) for part, buffer in zip(parts, final, strict=True)]
