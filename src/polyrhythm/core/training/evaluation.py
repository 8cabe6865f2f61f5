"""Evaluates the result of a run at the moments of a time grid, after the training is over."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.snapshots import Snapshots, before, index_at, moment, together
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.strategy.service import request_snapshots
from polyrhythm.core.strategy.snapshots import collect, new_snapshots, show
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.followed import Followed, FollowedPart
from polyrhythm.core.training.numbers import number
from polyrhythm.core.training.untouched import untouched
from polyrhythm.errors import WorkloadError, diverged

Evaluate = Callable[..., Mapping[str, Any]]
Moments = Callable[[int, Callable[[int], Mapping[str, float]]], None]
"""Chooses the moments to evaluate: gets their number, and a function that evaluates at the moment of an index and returns the metrics."""


def every_moment(count: int, at: Callable[[int], Mapping[str, float]]) -> None:
    """Evaluate at all `count` moments."""
    for place in range(count):
        at(place)


@dataclass(slots=True)
class Evaluation:
    """The evaluation that `worker.evaluate` requested, at one worker.

    `seconds` of the run's clock went into evaluating; the clock showed `began` when the run was resumed, or the worker became the first.
    """

    plan: StrategyPlan
    context: WorkerContext
    function: Evaluate | None = None
    moments: Moments = every_moment
    seconds: float = 0.0
    began: float = 0.0
    whole: Callable[[Sequence[nn.Module]], list[nn.Module]] | None = None
    """Puts models in parts together, at the first worker of a replica."""
    _followed: list[Followed] = field(default_factory=list)
    _steps: list[tuple[float, int, int]] = field(default_factory=list)
    _agreed: bool = False

    @property
    def group(self) -> Group:
        """The workers that hold the same part of the model."""
        return self.plan.mesh.replicas(self.context.port.name)

    def follow(self, replica: Replica) -> None:
        """Follow a model that was attached."""
        model = replica.model
        for part in replica.parts:
            known = any(model in each.models for each in self._followed)
            buffers = [] if known else [b for b in model.buffers() if b.is_floating_point() and b.numel()]
            self._followed.append(FollowedPart(part, model, buffers, new_snapshots(self.group.size)))
        self._want()

    def follow_state(self, followed: Followed) -> None:
        """Follow a table or a whole batch that was opened."""
        self._followed.append(followed)

    def request(self, function: Evaluate, moments: Moments, started: bool) -> None:
        """Set the `function` that evaluates and the choice of `moments`. Raises WorkloadError if training has started."""
        if started:
            raise WorkloadError("worker.evaluate was called after the first step: call it before training begins.")
        if self.function is not None:
            raise WorkloadError("worker.evaluate was called twice: give one function that returns all metrics.")
        if not callable(function):
            raise WorkloadError(f"worker.evaluate got {function!r}, which is not callable: give a function of the model.")
        if not callable(moments):
            raise WorkloadError(
                f"worker.evaluate got moments={moments!r}, which is not callable: give a function of how many moments there are and of one "
                "that evaluates at a moment."
            )
        self.function, self.moments = function, moments
        if self.group.is_first:
            self.context.perform(request_snapshots(self.context.port, self.plan.servers))
        self._want()

    def regroup(self, plan: StrategyPlan, replicas: Sequence[Replica]) -> None:
        """Follow the same models among other workers; the first of these asks the servers for copies."""
        was_first = self.group.is_first
        self.plan, parts = plan, iter([part for replica in replicas for part in replica.parts])
        for each in self._followed:
            each.regroup(parts)
        if self.function is not None and self.group.is_first:
            self.context.perform(request_snapshots(self.context.port, self.plan.servers))
            if not was_first:  # nobody has the copies of the one before
                self.began = self.context.port.now()
        self._want()

    def join(self) -> None:
        """A worker that joins a run under way: the others have agreed on what is evaluated."""
        self._agreed = True

    def agree(self) -> None:
        """At the first step, or before a run without steps ends: raise CompositionError at all workers if only some evaluate.

        Not once the crew has changed: some have agreed then, and do not again.
        """
        if not self._agreed and not self.context.port.changed:
            self._agreed = True
            requested = {} if self.function is None else {"evaluations": "to make"}
            self.context.agree(
                requested, "call worker.evaluate at every worker, not at worker 0 alone, which makes them when the training is over."
            )

    def look(self) -> None:
        """Keep copies at the start of an exchange: the buffers are those of the step that was under way since the last one ended."""
        if self.function is not None:
            now = self.context.port.now()
            for each in self._followed:
                each.exchange(now)

    def stepped(self, clock: int) -> None:
        """Keep copies at the end of a step: the buffers are as they were when its exchange started."""
        if self.function is not None:
            now = self.context.port.now()
            for each in self._followed:
                each.look(now)
            if self.group.is_first:
                self._steps.append((now, clock, self.context.bytes_sent))

    def finish(self) -> dict[str, float]:
        """Evaluate the kept copies and the final weights, at worker 0; returns the metrics of the final weights."""
        if self.function is None:
            return {}
        if self.plan.mesh.cut:
            return self._finish_in_parts(self.function)
        port, ended = self.context.port, self.context.port.now()
        if not self.group.is_first:
            for scope, snapshots in self._own():
                self.context.perform(show(port, self.group.first, scope, snapshots))
            return {}
        own = {(port.name, scope): snapshots for scope, snapshots in self._own()}
        everyone = own | self.context.perform(collect(port, self._expected() - own.keys()))
        final = self.context.free(lambda: self._evaluate_all(everyone, ended))
        self.seconds = port.now() - ended
        return final

    def own_metrics(self) -> Mapping[str, Any]:
        """What the function returns for the worker's own models as they are; nothing where there is none, or models are in parts."""
        if self.function is None or self.plan.mesh.cut:
            return {}
        return self.context.free(self._called)

    def _called(self) -> Mapping[str, Any]:
        assert self.function is not None
        subjects = list({id(each.subject): each.subject for each in self._followed}.values())
        models = list({id(model): model for each in self._followed for model in each.models}.values())
        with untouched(models):
            return self.function(*subjects)

    def _finish_in_parts(self, function: Evaluate) -> dict[str, float]:
        """Evaluate the final weights of a model in parts, of which no copies are kept, at the first worker."""
        if not self.group.is_first:
            return {}
        assert self.whole is not None, "models are in parts"
        port, ended = self.context.port, self.context.port.now()
        models = self.whole(list({id(model): model for each in self._followed for model in each.models}.values()))
        if not models:
            return {}
        with untouched(models):
            final = self.context.free(lambda: _checked(function(*models), ended))
        self.seconds = port.now() - ended
        self._record(ended, ended, final)
        return final

    def _want(self) -> None:
        for each in self._followed:
            each.want(self.function is not None and not self.plan.mesh.cut, self.context.port.name, self._holders())
            each.look(self.context.port.now())  # the state before the first forward pass

    def _holders(self) -> Sequence[str]:
        """The workers whose buffers are in the result."""
        return self.group.members if self.plan.strategy.buffers.averaged else (self.group.first,)

    def _own(self) -> list[tuple[str, Snapshots]]:
        return [found for each in self._followed for found in each.own()]

    def _expected(self) -> set[tuple[str, str]]:
        return {key for each in self._followed for key in each.expected(self._holders())}

    def _evaluate_all(self, everyone: Mapping[tuple[str, str], Snapshots], ended: float) -> dict[str, float]:
        final = [each.final() for each in self._followed]
        kept, found = list(everyone.values()), dict[int, dict[str, float]]()
        first = index_at(self.began) + 1  # a resumed run has nothing from before its start
        indices = [index for index in sorted({max(index, first) for index in together(kept)}) if moment(index) < ended]
        times = [*((moment(index), before(index, kept)) for index in indices), (ended, before(index_at(ended) + 1, kept))]

        def at(place: int) -> dict[str, float]:
            if place not in found:
                for each, last in zip(self._followed, final, strict=True):
                    if place < len(indices):
                        each.show(indices[place], everyone, last)
                    else:
                        each.restore(last)
                found[place] = self._measured(times[place][0])
            return found[place]

        try:
            self.moments(len(times), at)
            return at(len(indices))
        finally:
            for each, last in zip(self._followed, final, strict=True):
                each.restore(last)
            for place in sorted(found):
                self._record(*times[place], found[place])

    def _measured(self, moment: float) -> dict[str, float]:
        return _checked(self._called(), moment)

    def _record(self, moment: float, since: float, metrics: dict[str, float]) -> None:
        times = [each[0] for each in self._steps]
        _, clock, nbytes = self._steps[group - 1] if (group := bisect_right(times, moment)) else (0.0, 0, 0)
        self.context.record(Evaluated(moment, self.context.port.name, clock, metrics, nbytes, since))


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
