"""The bytes of an exchange, counted between two workers: there a ring sends each gradient once, and so does a gathering of packets."""

from __future__ import annotations

from polyrhythm.reproductions.step_cost import step_cost, timed
from polyrhythm.simulator import Simulator
from polyrhythm.strategy import Strategy
from polyrhythm.workloads.workload import Workload

_STEPS = 8


def times_fewer(job: Workload, strategy: Strategy, after: int = 0, dense: Strategy | str = "allreduce") -> float:
    """How many times fewer bytes a step sends than with `dense`, headers of messages included, in steps that come `after` so many.

    Nothing is trained: gradients are zeros, so that codecs whose packets depend on values cannot be counted like this.
    """
    return _bytes_a_step(job, dense, 0) / _bytes_a_step(job, strategy, after)


def _bytes_a_step(job: Workload, strategy: Strategy | str, after: int) -> float:
    return step_cost(timed(job, strategy, 2, Simulator()), after + _STEPS, _STEPS).nbytes
