"""Tiresias (Gu et al., 2019): job_id, num_gpu, submit_time, iterations, model_name, duration, interval."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from polyrhythm.cluster.simulation.traced_job import TracedJob
from polyrhythm.cluster.traces.rows import gang, number, rows
from polyrhythm.core import streams

COLUMNS = ("job_id", "num_gpu", "submit_time", "model_name", "duration")
_MODELS = ("vgg19", "vgg16", "vgg11", "alexnet", "resnet152", "resnet101", "resnet50", "inception4", "inception3", "googlenet")


def read(path: Path) -> tuple[TracedJob, ...]:
    """The jobs in the order of their arrival."""
    found = []
    for row in rows(path, COLUMNS):
        seconds = max(1.0, number(row, "duration", path))
        job = gang(f"{row['model_name']}-{row['job_id']}", max(1, int(number(row, "num_gpu", path))), seconds)
        found.append(TracedJob(number(row, "submit_time", path), job, seconds))
    return tuple(sorted(found, key=lambda traced: (traced.submitted, traced.job.name)))


def sample(seed: int, jobs: int) -> Mapping[str, str]:
    """A file of the same form: short, long, small and large jobs."""
    draws = streams.stream(seed, "cluster", "tiresias")
    now, lines = 0, ["job_id,num_gpu,submit_time,iterations,model_name,duration,interval"]
    for place in range(jobs):
        devices = int(draws.choice((1, 2, 4, 8, 16), p=(0.4, 0.2, 0.2, 0.15, 0.05)))
        iterations = round(float(draws.lognormal(6.0, 1.0)) + 50)
        gap = round(float(draws.exponential(30.0)))
        model = _MODELS[int(draws.integers(len(_MODELS)))]
        lines.append(f"{place},{devices},{now},{iterations},{model},{max(10, iterations // 3)},{gap}")
        now += gap
    return {"tiresias.csv": "\n".join(lines) + "\n"}
