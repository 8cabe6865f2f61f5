"""A small GPT whose workers are killed every 20 seconds on average: the loss at equal samples, and the time, real and virtual.

    python benchmarks/killed_gpt.py --minutes 10 --json killed.json

Four workers train `chars-gpt` on real processes under `allreduce`, three times: undisturbed for a tenth of the time, whose step times are
the profile of the virtual machine; undisturbed; and with `Preemptions`, each worker killed at 180 an hour and replaced half a second
later. The same preemptions are then made in virtual time. Goals, fixed before: the loss within 5 % of the undisturbed one, and the
virtual duration within 20 % of the measured one. Four workers on two cores share them, so that a step takes twice its time; the profile
has that in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import polyrhythm as pr
from polyrhythm.core.kernel.events import Computed, CrewChanged
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import Preemptions
from polyrhythm.workloads.chars import CharsGpt

WORKERS = 4
RATE_PER_HOUR = 180.0
BACK_AFTER = 0.5
SYSTEM = "allreduce"


def measured(samples: int, on: Any, workers: Any) -> tuple[dict[str, Any], pr.Run]:
    """One run: its loss, seconds, steps, samples, and changes of the crew."""
    run = pr.run(CharsGpt(samples=samples), workers=workers, strategy=SYSTEM, on=on, seed=1)
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


def profile(run: pr.Run) -> Profile:
    """The time that a step of one worker takes beside the others, as it was measured."""
    times = [event.seconds for event in run.outcome.events if isinstance(event, Computed) and event.actor == "worker/1"]
    return Profile("measured", (statistics.median(times),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--virtual", action="store_true", help="the run in virtual time too, which takes about twice as long")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    short, run = measured(4096, pr.Processes(), WORKERS)
    rate = short["samples"] / short["seconds"]
    samples = int(rate * 60 * given.minutes) // 64 * 64
    horizon = 60 * given.minutes
    faults = (Preemptions(RATE_PER_HOUR, back_after=BACK_AFTER, horizon=horizon),)
    crew = pr.Crew(1, WORKERS, replace=False)
    found["undisturbed"], _ = measured(samples, pr.Processes(), WORKERS)
    print("undisturbed", found["undisturbed"], flush=True)
    found["killed"], _ = measured(samples, pr.Processes(faults=faults), crew)
    print("killed", found["killed"], flush=True)
    if given.virtual:
        simulator = pr.Simulator(network=pr.Instant(), devices=profile(run), faults=faults)
        found["virtual"], _ = measured(samples, simulator, crew)
        print("virtual", found["virtual"], flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
