"""The state of a worker as code reads it that inspects a run or builds on it: integrations, measurements, tests. `Worker` is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.view import View
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.strategy.watching.gradient_watch import GradientWatch
from polyrhythm.core.training.changing import ChangingCrew
from polyrhythm.core.training.models import Models
from polyrhythm.core.training.steps import Steps
from polyrhythm.core.training.worker_parts import present
from polyrhythm.core.training.worker_state import WorkerState


class ObservedWorker:
    """The counters and the state of a worker."""

    _crew: ChangingCrew
    _group: Group
    _models: Models
    _state: WorkerState
    _steps: Steps

    @property
    def is_first(self) -> bool:
        """True at the worker that writes, evaluates and has the result for all."""
        return self._group.is_first

    @property
    def crew(self) -> View:
        """The workers that are there, as this worker knows: their names are `crew.members`, and `crew.epoch` counts the changes."""
        return present(self._crew, self._models)

    def own_metrics(self) -> Mapping[str, Any]:
        """The metrics of this worker's own weights as they are, by the function that was given to `evaluate`; none before that.

        The function is called without gradients and in evaluation mode, takes no virtual time, and nothing is recorded. The result of the
        run may be other weights: a mean, or those of servers.
        """
        return self._models.evaluation.own_metrics()

    @property
    def seconds_aside(self) -> float:
        """Seconds of the run's clock spent on evaluation after the training."""
        return self._models.evaluation.seconds

    @property
    def returning(self) -> bool:
        """True while a resumed run has not come to where the checkpoint was written."""
        return self._state.position.returning

    @property
    def finished(self) -> bool:
        """True if `finish` was called."""
        return self._steps.finished

    @property
    def clock(self) -> int:
        """Steps that this worker has taken; of several models or tables, in each iteration as many as the one takes that takes most."""
        return self._steps.clock

    @property
    def steps(self) -> Steps:
        """The counter of this worker's steps."""
        return self._steps

    @property
    def gradients(self) -> GradientWatch:
        """The check that gradients reach the attached models."""
        return self._models.gradients

    @property
    def overlaps(self) -> bool:
        """True if the exchange of gradients begins during `backward()`."""
        return any(replica.overlaps for replica in self._models.replicas)

    @property
    def attached(self) -> tuple[Replica, ...]:
        """The replicas, for code that inspects a run or builds on it; after `finish` they hold the final weights."""
        return tuple(self._models.replicas)

    @property
    def samples(self) -> int:
        """Samples that this worker's steps have used."""
        return self._state.samples

    @property
    def metrics(self) -> dict[str, float]:
        """The latest reported value of each metric."""
        return dict(self._state.metrics)
