"""Several runs at once on the machines of a Ray cluster, each a separate task; the records are written here."""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from polyrhythm.core.extras import needed
from polyrhythm.core.processes.spawn import job_spec
from polyrhythm.core.records import directory as directories
from polyrhythm.core.records.progress import ProgressLine
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import CompositionError, PolyrhythmError, RunError
from polyrhythm.launchers.ray_connection import connect, is_connected
from polyrhythm.tools.pools.pools import Done, RunTask

_LOOK_SECONDS = 0.25


@dataclass(slots=True)
class RayPool:
    """At most `size` runs at once, as `RunPool` has them in processes of this host.

    The cluster is the one that Ray finds (RAY_ADDRESS), else a new one on this host.
    """

    size: int
    board: ProgressLine
    done: Done
    _busy: dict[Any, tuple[int, RunTask, Path | None]] = field(default_factory=dict)

    def work(self, plans: Iterable[tuple[int, RunTask, Path | None]]) -> None:
        """Start all runs in their order, and wait for them. Whatever ends this ends the runs under way.

        Raises the PolyrhythmError of a run that could not be started.
        """
        if not is_connected():
            connect("ray")
        ray = needed("ray", "ray")
        make, waiting, more = ray.remote(num_cpus=1, max_retries=0)(_make), iter(plans), True
        try:
            while more or self._busy:
                while more and len(self._busy) < self.size:
                    following = next(waiting, None)
                    more = following is not None
                    if following is None:
                        break
                    place, plan, directory = following
                    end = make.remote(job_spec.pickled(plan), job_spec.module_path(), os.getcwd(), torch.get_num_threads())
                    self._busy[end] = place, plan, directory
                    self.board.begin(plan.name)
                for ready in ray.wait(list(self._busy), timeout=_LOOK_SECONDS)[0]:
                    self._receive(ray, ready)
                self.board.refresh()
        finally:
            for end in self._busy:
                ray.cancel(end, force=True)

    def _receive(self, ray: Any, end: Any) -> None:
        place, plan, directory = self._busy.pop(end)
        try:
            received = ray.get(end)
        except ray.exceptions.RayError as problem:
            received = plan.failed(RunError(f"Ray lost the task of this run: {str(problem).strip().splitlines()[0]}"))
        self.board.end(plan.name)
        if isinstance(received, PolyrhythmError):
            raise received
        self.done(place, _kept(received, directory))


def _kept(attempt: Attempt, directory: Path | None) -> Attempt:
    """`attempt` with its record in `directory`, and without weights, which are there."""
    if directory is not None:
        try:
            directories.save(attempt.outcome, directory)
        except CompositionError as problem:
            attempt.troubles.append(str(problem))
            attempt.outcome.remarks.append(str(problem))
    attempt.outcome.weights.clear()
    return attempt


def _make(packed: bytes, path: list[str], folder: str, threads: int) -> Attempt | PolyrhythmError:
    """The task: makes one run as it would be made by the caller."""
    job_spec.extend_module_path(path)
    if os.path.isdir(folder):
        os.chdir(folder)
    torch.set_num_threads(threads)
    importlib.import_module("torch._dynamo")  # as in `RunPool`: else the first run here would take seconds more than the others
    plan: RunTask = pickle.loads(packed)
    try:
        return plan.attempt(None, lambda event: None)
    except PolyrhythmError as problem:
        return problem
