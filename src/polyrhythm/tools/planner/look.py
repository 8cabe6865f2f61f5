"""A first look at a JOB, by short runs at one worker: what it measures, how long it is, and whether its schedule depends on that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import monotonic
from typing import Any

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.kernel.events import AnyEvent, Evaluated, Reported, Stepped
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import attempt
from polyrhythm.core.training.worker import Worker
from polyrhythm.hardware.devices import Device
from polyrhythm.systems import find
from polyrhythm.tools.planner.lengths import Length, Observed
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.scenario import Scenario

_FEW = 4
_STEPS = 128
"""Runs that look for schedules and lengths take at most so many steps: many schedules begin with a hundred steps of warm-up."""
_SLOW = Device("one operation a second", 1.0)
"""A device on which the first evaluation comes before the first step has ended."""

Options = Sequence[Mapping[str, float]]
"""The numbers among the options of each parameter group."""


@dataclass(slots=True)
class ObservedRun:
    """A run that was looked at: its `options` step by step, and the `moments` of these by the clock; whether it was `cut` short, whether
    samples were `shared` among workers, and the number of batches in an epoch; the first values of its metrics.
    """

    options: list[Options] = field(default_factory=list)
    cut: bool = False
    pass_length: int | None = None
    shared: bool = False
    metrics: set[str] = field(default_factory=set)
    untrained: Mapping[str, float] = field(default_factory=dict)
    moments: list[float] = field(default_factory=list)
    evaluating: float = 0.0

    @property
    def steps(self) -> int:
        """The number of steps that were taken."""
        return len(self.options)


@dataclass(slots=True)
class Look:
    """Looks at the JOB of `scenario`; each run ends after `seconds` by the clock."""

    scenario: Scenario
    seconds: float

    def observed(self) -> Observed:
        """The observations of first runs. Raises PolyrhythmErrors for a JOB that cannot be run."""
        began = monotonic()
        first = self.trial(self.scenario.set({}), _FEW, evaluated=True)
        target, length = self.scenario.target.metric, self.scenario.length
        gaps = [later - before for before, later in pairwise(first.moments)] or [monotonic() - began]
        real = min(gaps)  # the first step loads what all need
        seen = Observed(frozenset(first.metrics), first.untrained.get(target), real, first.evaluating, pass_length=first.pass_length)
        if self.scenario.known:
            return seen
        return self._whole(seen) if length is None else self._length(seen, length)

    def all_metrics(self, seconds: float) -> tuple[set[str], bool]:
        """The metrics of a whole run, or of so many seconds of one; and whether it came to its end."""
        trial = replace(self, seconds=seconds).trial(self.scenario.set({}), None, evaluated=True)
        return trial.metrics, not trial.cut

    def _whole(self, seen: Observed) -> Observed:
        trial = self.trial(self.scenario.set({}), _STEPS)
        return replace(seen, whole=None if trial.cut else trial.steps, divided=trial.shared, metrics=seen.metrics | trial.metrics)

    def _length(self, seen: Observed, length: Length) -> Observed:
        one, two = (self.trial(self.scenario.set({length.name: count}), _STEPS) for count in (1, 2))
        unit: float | None = None
        if not one.cut and not two.cut and two.steps > one.steps:
            unit = two.steps - one.steps
        elif one.pass_length is not None:
            unit = one.pass_length
        divided = one.shared and (unit is None or one.pass_length is None or unit == one.pass_length > 1)
        short, long = (self.trial(_short(self.scenario.set(length.times(factor))), _STEPS) for factor in (1, 2))
        scheduled = any(a != b for a, b in zip(short.options, long.options, strict=False))
        names = seen.metrics.union(one.metrics, two.metrics, short.metrics)
        return replace(seen, unit=unit, divided=divided, scheduled=scheduled, metrics=names)

    def trial(self, train: Train, steps: int | None, evaluated: bool = False) -> ObservedRun:
        """A run of at most so many steps, in its seconds from the first step on, which may load what all need. Raises what the run did."""
        found = ObservedRun()
        held: list[Worker] = []

        def first_moment(count: int, at: Callable[[int], Mapping[str, float]]) -> None:
            began = monotonic()
            at(0)
            found.evaluating = monotonic() - began

        limited = Limited(_watched(train, found, held, evaluated), steps or 1 << 40, moments=first_moment)

        def watch(event: AnyEvent) -> None:
            if isinstance(event, Evaluated | Reported):
                found.metrics.update(event.metrics)
                if isinstance(event, Evaluated) and not event.clock and not found.untrained:
                    found.untrained = dict(event.metrics)
            elif isinstance(event, Stepped):
                found.options.append(_options(held[0]))
                found.moments.append(monotonic())
                found.cut = event.clock >= limited.last
                if found.moments[-1] > found.moments[0] + self.seconds:
                    limited.end_after(event.clock)
                    found.cut = True

        attempt(limited, workers=1, strategy=find("single"), on=Simulator(network=Instant(), devices=_SLOW), watch=watch).completed()
        return found


def _watched(train: Train, found: ObservedRun, held: list[Worker], evaluated: bool) -> Train:
    """`train`, and what it asks its worker for."""

    def watched(worker: Any) -> object:
        held.append(worker)
        whole, sampler, shard = worker.batches, worker.sampler, worker.shard

        def batches(*given: Any, **named: Any) -> Any:
            made = whole(*given, **named)
            found.shared = True
            with suppress(TypeError):  # a stream has no length
                found.pass_length = len(made)
            return made

        def noted(function: Callable[..., Any]) -> Callable[..., Any]:
            def called(*given: Any, **named: Any) -> Any:
                found.shared = True
                return function(*given, **named)

            return called

        worker.batches = batches
        worker.sampler, worker.shard = noted(sampler), noted(shard)
        if not evaluated:
            worker.evaluate = _no_evaluation
        return train(worker)

    return watched


def _no_evaluation(*given: object, **named: object) -> None:
    """Ignore an evaluation: an earlier run has shown it."""


def _short(train: Train) -> Train:
    """`train` with epochs of one batch: the work between epochs comes at once."""

    def short(worker: Any) -> object:
        whole = worker.batches
        worker.batches = lambda *given, **named: _First(whole(*given, **named))
        return train(worker)

    return short


@dataclass(frozen=True, slots=True)
class _First:
    whole: Any

    def __len__(self) -> int:
        return len(self.whole)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.whole:
            yield batch
            return


def _options(worker: Worker) -> Options:
    return [
        {name: float(value) for name, value in group.items() if isinstance(value, int | float)}
        for replica in worker.attached
        for group in replica.optimizer.param_groups
    ]
