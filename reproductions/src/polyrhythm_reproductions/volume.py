"""The bytes of an exchange, counted between two workers, where a ring sends each gradient once and so does a gathering of packets.

Among more, a ring sends 2 (P - 1) gradients in all and a gathering P (P - 1) packets, so that a ratio of packets says less and less.
"""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.workloads.workload import Workload
from polyrhythm_reproductions.step_cost import step_cost, timed

_STEPS = 8
AT_16 = "all bytes of a step of 16 workers"
"""The figure that is shown with a ratio of packets."""


def times_fewer(job: Workload, strategy: Strategy, after: int = 0, dense: Strategy | str = "allreduce", workers: int = 2) -> float:
    """The factor by which a step sends fewer bytes than with `dense`, headers of messages included, in steps that come `after` so many.

    Nothing is trained: gradients are zeros, so that codecs whose packets depend on values cannot be counted like this.
    """
    return _bytes_a_step(job, dense, 0, workers) / _bytes_a_step(job, strategy, after, workers)


def beside(job: Workload, strategy: Strategy, after: int = 0, dense: Strategy | str = "allreduce") -> Mapping[str, float]:
    """`times_fewer` between 2 workers and among 16."""
    return {"ratio": times_fewer(job, strategy, after, dense), AT_16: times_fewer(job, strategy, after, dense, workers=16)}


def _bytes_a_step(job: Workload, strategy: Strategy | str, after: int, workers: int) -> float:
    return step_cost(timed(job, strategy, workers, Simulator()), after + _STEPS, _STEPS).nbytes
