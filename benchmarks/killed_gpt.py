"""A small GPT whose workers are killed every 20 seconds on average: the loss at equal samples, and the time, real and virtual.

    python benchmarks/killed_gpt.py --minutes 10 --json benchmarks/results/killed_gpt.json

Four workers train `chars-gpt` on real processes under `allreduce`, undisturbed, and with `Preemptions`: each worker is killed at 180 an
hour for nine tenths of the given time, and replaced half a second later. Both runs are made at the same time, so that both have the same
part of the machine, and take about the given time. The same preemptions are then made in virtual time, of a smaller GPT, with devices whose
steps take the mean time from one step to the next of the undisturbed run, and newcomers that begin as late as they joined the killed one.
Goals, fixed before: the loss within 5 % of the undisturbed one, and the virtual duration within 20 % of the measured one. Eight workers on
two cores share them, so that a step takes several times as long as alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import polyrhythm as pr
from polyrhythm.core.kernel.events import CrewChanged, Stepped
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import Preemptions
from polyrhythm.workloads.chars import CharsGpt

WORKERS = 4
RATE_PER_HOUR = 180.0
BACK_AFTER = 0.5
SYSTEM = "allreduce"


def measured(job: CharsGpt, on: Any, workers: Any) -> tuple[dict[str, Any], pr.Run]:
    """One run: its loss, seconds, steps, samples, and changes of the crew."""
    run = pr.run(job, workers=workers, strategy=SYSTEM, on=on, seed=1)
    changes = [event for event in run.outcome.events if isinstance(event, CrewChanged)]
    row = {
        "bits": run.summary.final["bits"],
        "seconds": run.outcome.time,
        "steps": run.summary.steps,
        "samples": run.summary.samples,
        "lost": len(run.summary.lost),
        "changes": len(changes),
    }
    return row, run


def step_time(run: pr.Run) -> float:
    """The mean seconds from one step of a worker to the next."""
    times = [event.time for event in run.outcome.events if isinstance(event, Stepped) and event.actor == "worker/1"]
    return (times[-1] - times[0]) / (len(times) - 1)


def away(run: pr.Run) -> float:
    """The mean seconds from a loss to the next worker that joins, in the order of losses."""
    changes = [event for event in run.outcome.events if isinstance(event, CrewChanged)]
    left, joined = [event.time for event in changes for _ in event.left], [event.time for event in changes for _ in event.joined]
    return fmean(there - gone for gone, there in zip(left, joined, strict=False)) if joined else 0.0


def part(name: str, samples: int, minutes: float) -> dict[str, Any]:
    """One of the two real runs."""
    faults = (Preemptions(RATE_PER_HOUR, back_after=BACK_AFTER, horizon=54 * minutes),) if name == "killed" else ()
    workers = pr.Crew(1, WORKERS, replace=False) if name == "killed" else WORKERS
    row, run = measured(CharsGpt(samples=samples), pr.Processes(faults=faults, patience=120.0), workers)
    return {**row, "away": away(run)} if name == "killed" else {**row, "step_time": step_time(run)}


def both(samples: int, minutes: float) -> dict[str, Any]:
    """The two real runs at the same time, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, name) for name in ("undisturbed", "killed")}
        size = ["--samples", str(samples), "--minutes", str(minutes)]
        started = [subprocess.Popen([sys.executable, __file__, "--part", name, *size, "--json", path]) for name, path in paths.items()]
        assert not sum(each.wait() for each in started)
        return {name: json.loads(path.read_text()) for name, path in paths.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", choices=("undisturbed", "killed"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--detection", type=float, default=0.0, help="virtual seconds of standstill after a kill, measured by elastic_kills.py"
    )
    parser.add_argument("--real", type=Path, help="the JSON of an earlier run, whose real runs are not repeated")
    parser.add_argument("--samples", type=int, help="windows of the text, in place of what takes the given time")
    given = parser.parse_args()
    if given.part:
        given.json.write_text(json.dumps(part(given.part, given.samples, given.minutes)))
        return
    earlier = json.loads(given.real.read_text()) if given.real else {}
    samples = earlier["undisturbed"]["samples"] if earlier else given.samples
    if not samples:
        short, _ = measured(CharsGpt(samples=4096), pr.Processes(), WORKERS)
        samples = int(short["samples"] / short["seconds"] * 30 * given.minutes) // 64 * 64
    found = earlier or both(samples, given.minutes)
    for name, row in found.items():
        print(name, row, flush=True)
    faults = (Preemptions(RATE_PER_HOUR, back_after=BACK_AFTER, horizon=54 * given.minutes),)
    devices, startup = Profile("measured", (found["undisturbed"]["step_time"],)), max(0.0, found["killed"].get("away", 0.0) - BACK_AFTER)
    simulator = pr.Simulator(network=pr.Instant(), devices=devices, faults=faults, detection=given.detection, startup=startup)
    job = CharsGpt(samples=samples, context=16, layers=1, width=16, heads=1)
    found[f"virtual, {given.detection:g} s of standstill, {startup:.2g} s to begin"], _ = measured(
        job, simulator, pr.Crew(1, WORKERS, replace=False)
    )
    found.setdefault("load", os.getloadavg())
    print(found)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
