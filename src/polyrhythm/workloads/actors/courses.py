"""The courses that a worker plays side by side, so that one pass through its network chooses an action in each."""

from __future__ import annotations

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.actors.environment import Environment, Play


def courses(environment: Environment, worker: WorkloadWorker, name: str, count: int) -> list[Play]:
    """So many courses of `worker` in the workload `name`, each with a stream of its own."""
    places = range(worker.rank, worker.workers * count, worker.workers)
    return [environment.play(rng.stream(worker.seed, name, "play", place)) for place in places]


def require_courses(workload: str, batch_size: int, count: int) -> None:
    """Refuse frames of a step that are not the same for each course, with a WorkloadError."""
    if batch_size % count:
        raise WorkloadError(f"{workload} was given batch_size={batch_size} and courses={count}: give a multiple of the courses.")
