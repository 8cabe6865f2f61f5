"""Latency profiles, measured: the 99th percentile of the seconds of a batch, as `serve run` computes it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.server.served_model import Compute, ServedModel

_PAGE = 4096
_WIDEST = 0.95
BATCHES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """The seconds of batches by size, the bytes with each, and the seconds of loading, as they were measured."""

    seconds: Mapping[int, Sequence[float]]
    nbytes: Mapping[int, int]
    loading: float

    def profile(self, name: str, kind: str, percentile: float = 99.0) -> LatencyProfile:
        """The profile of a percentile: the 99th to plan with, the median for what a machine does in the long run."""
        points = {batch: float(np.percentile(times, percentile)) for batch, times in self.seconds.items()}
        made = LatencyProfile.measured(name, kind, points, self.nbytes, (0.0, 0.0, self.loading))
        below = [1 - float(np.median(times)) / points[batch] for batch, times in self.seconds.items()]
        return replace(made, spread=min(_WIDEST, max(0.0, 2 * float(np.mean(below)))))


def measured_profile(name: str, kind: str, model: ServedModel, batches: Sequence[int] = BATCHES, repeats: int = 60) -> LatencyProfile:
    """The 99th percentile by batch of `timed_batches`."""
    return timed_batches(model, batches, repeats).profile(name, kind)


def timed_batches(model: ServedModel, batches: Sequence[int] = BATCHES, repeats: int = 60) -> BatchTimes:
    """Load the model here, and time `repeats` batches of each size, the sizes by turns, in a thread as a server has one.

    Sizes by turns see the same other programs. The bytes are how much this process has grown, by the largest batch so far. A machine that
    will have several models is profiled with them under load: what others take of it is in the 99th percentile then.
    """
    before = _resident()
    begun = time.perf_counter()
    compute = model.load()
    loading = time.perf_counter() - begun
    seconds: dict[int, list[float]] = {batch: [] for batch in batches}
    nbytes: dict[int, int] = {}
    example = model.form.example()
    with ThreadPoolExecutor(1) as thread:
        for batch in batches:
            thread.submit(_timed, compute, [example] * batch).result()
            nbytes[batch] = max(1, _resident() - before, *nbytes.values())
        for _ in range(repeats):
            for batch in batches:
                seconds[batch].append(thread.submit(_timed, compute, [example] * batch).result())
    return BatchTimes(seconds, nbytes, loading)


def _timed(compute: Compute, batch: Sequence[np.ndarray]) -> float:
    begun = time.perf_counter()
    compute(batch)
    return time.perf_counter() - begun


def _resident() -> int:
    """The bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
