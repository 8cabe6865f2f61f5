"""Pollux (Qiao et al., 2021; branch osdi21-artifact of adaptdl): a workload of applications, and their measured steps by placement.

The workload has name, time, application, num_replicas and batch_size. A folder for each application is beside it: `placements.csv` has the
seconds of a step by placement ("112": hosts with 1, 1 and 2 workers) and local batch, `validation-N.csv` the iterations with a batch of N.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from polyrhythm.cluster.jobs import ClusterJob, WorkerDemand
from polyrhythm.cluster.simulation.speeds import MeasuredSpeed, Steps, fastest
from polyrhythm.cluster.simulation.traced_job import TracedJob
from polyrhythm.cluster.traces.rows import number, rows
from polyrhythm.core import streams
from polyrhythm.errors import CompositionError

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")


def read(path: Path) -> tuple[TracedJob, ...]:
    """The jobs, with as many workers as replicas, or fewer down to one; the seconds are of all iterations at the best placement."""
    found = []
    for row in rows(path, COLUMNS):
        workers, batch = int(number(row, "num_replicas", path)), int(number(row, "batch_size", path))
        folder = path.parent / row["application"]
        seconds = _iterations(folder, batch) * fastest(_steps(folder, batch), workers)
        job = ClusterJob(row["name"], WorkerDemand(devices=1), workers, 1, estimate=seconds)
        found.append(TracedJob(number(row, "time", path), job, seconds))
    return tuple(sorted(found, key=lambda traced: (traced.submitted, traced.job.name)))


def pollux_speeds(path: Path) -> MeasuredSpeed:
    """The measured steps of all jobs of a workload."""
    steps = {row["name"]: _steps(path.parent / row["application"], int(number(row, "batch_size", path))) for row in rows(path, COLUMNS)}
    return MeasuredSpeed(steps)


@cache
def _steps(folder: Path, batch: int) -> Steps:
    """The seconds of a step on the whole batch, by placement: of the local batch that is nearest, in as many parts as are needed."""
    best: dict[tuple[int, ...], tuple[float, float]] = {}
    for row in rows(folder / "placements.csv", ("placement", "local_bsz", "step_time")):
        shape = tuple(sorted(int(digit) for digit in row["placement"]))
        local, measured = batch / sum(shape), number(row, "local_bsz", folder)
        seconds = number(row, "step_time", folder) * max(1.0, local / measured)
        far = abs(local - measured)
        if shape not in best or far < best[shape][0]:
            best[shape] = (far, seconds)
    return {shape: seconds for shape, (_, seconds) in best.items()}


def _iterations(folder: Path, batch: int) -> float:
    """The iterations until the end of training with that batch, or with the nearest that was measured, scaled."""
    known = {int(file.stem.partition("-")[2]): file for file in sorted(folder.glob("validation-*.csv"))}
    if not known:
        raise CompositionError(
            f"The folder {str(folder)!r} has no validation-N.csv: give the traces of the application beside the workload."
        )
    nearest = min(known, key=lambda each: (abs(each - batch), each))
    last = [number(row, "iteration", known[nearest]) for row in rows(known[nearest], ("iteration",))][-1]
    return last * nearest / batch


def sample(seed: int, jobs: int) -> Mapping[str, str]:
    """A workload of two applications, and their folders."""
    draws = streams.stream(seed, "cluster", "pollux")
    lines, now = [",".join(COLUMNS)], 0
    for place in range(jobs):
        now += round(float(draws.exponential(150.0)))
        name, batch = (("small", 512), ("large", 1024))[int(draws.random() < 0.3)]
        lines.append(f"{name}-{place},{now},{name},{int(draws.choice((1, 2, 4)))},{batch}")
    files = {"pollux.csv": "\n".join(lines) + "\n"}
    for name, batch, sync in (("small", 512, 0.02), ("large", 1024, 0.2)):
        measured = ["placement,local_bsz,step_time,sync_time"]
        for shape in ("1", "2", "4", "11", "1111", "112", "22", "13"):
            workers = sum(map(int, shape))
            wait = sync * (len(shape) - 1) + 0.005 * (workers > 1)
            measured += [f"{shape},{local},{local * 0.002 + wait:.4f},{wait:.4f}" for local in (64, 128, 256, 512, 1024)]
        files[f"{name}/placements.csv"] = "\n".join(measured) + "\n"
        files[f"{name}/validation-{batch}.csv"] = (
            f"progress,iteration,metric\n100.0,200,0.5\n500.0,{900 if name == 'small' else 1500},0.9\n"
        )
    return files
