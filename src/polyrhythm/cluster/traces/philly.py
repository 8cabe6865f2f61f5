"""Philly (Jeon et al., 2019), in the form of the artefact of Pollux: timestamp, duration, num_gpus, gpu_time, cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from polyrhythm.cluster.simulation.traced_job import TracedJob
from polyrhythm.cluster.traces.rows import gang, number, rows
from polyrhythm.core import streams
from polyrhythm.errors import CompositionError

COLUMNS = ("timestamp", "duration", "num_gpus")


def read(path: Path) -> tuple[TracedJob, ...]:
    """The jobs in the order of their arrival, counted from the first; those without devices or duration are left out."""
    found = []
    for place, row in enumerate(rows(path, COLUMNS)):
        seconds, devices = number(row, "duration", path), int(number(row, "num_gpus", path))
        if seconds > 0 and devices > 0:
            found.append((_moment(row["timestamp"], path), place, seconds, devices))
    found.sort()
    return tuple(
        TracedJob((moment - found[0][0]).total_seconds(), gang(f"philly-{place}", devices, seconds), seconds)
        for moment, place, seconds, devices in found
    )


def sample(seed: int, jobs: int) -> Mapping[str, str]:
    """A file of the same form: 93 % of the jobs with one device, and durations over four decades."""
    draws = streams.stream(seed, "cluster", "philly")
    now, lines = datetime(2017, 10, 3), ["timestamp,duration,num_gpus,gpu_time,cluster"]
    for _ in range(jobs):
        now += timedelta(seconds=round(float(draws.exponential(60.0))))
        devices = int(draws.choice((1, 2, 4, 8, 16), p=(0.932, 0.022, 0.023, 0.02, 0.003)))
        seconds = round(min(3 * 86400.0, float(draws.lognormal(7.0, 2.0)) + 30.0))
        lines.append(f"{now:%Y-%m-%d %H:%M:%S},{seconds}.0,{devices},{seconds * devices}.0,{int(draws.integers(1 << 24)):06x}")
    return {"philly.csv": "\n".join(lines) + "\n"}


def _moment(text: str, path: Path) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as problem:
        raise CompositionError(f"The trace {str(path)!r} has {text!r} for a time: write it as 2017-10-03 07:01:55.") from problem
