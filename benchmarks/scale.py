"""How many virtual workers the simulator carries: seconds, worker-steps a second, and the most memory of one process.

    python benchmarks/scale.py [--real gaia ako gossipgrad dlion] [--workers 1000] [--steps 50] [--timing 1000x100 10000x10]
        [--collectives messages] [--json FILE]

`--real`: each of these systems trains digits-cnn with real gradients, so many workers for so many steps, with batches of one sample where
there are too few for more. `--timing`: gossip by `pr.simulate_timing`, workers x steps. Each run has a process of its own; figures are
added to those that the file has.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polyrhythm as pr
from polyrhythm.workloads.digits import TRAINING_SAMPLES, DigitsCnn

GOSSIP = "gossipgrad"
COLLECTIVES = {"messages": pr.Messages(), "closed-form": pr.ClosedForm()}
Measured = dict[str, Any]


def trained(system: str, workers: int, steps: int, on: pr.Simulator) -> Measured:
    """`steps` steps of each worker with real gradients."""
    share = max(1, TRAINING_SAMPLES // workers)
    batch = min(16, share)
    train = DigitsCnn(epochs=-(-steps // (share // batch)), batch_size=batch)
    return _measured(lambda: pr.run(train, workers=workers, strategy=system, on=on))


def timed(workers: int, steps: int, on: pr.Simulator) -> Measured:
    """`steps` steps of each worker, of which only the time is computed."""
    return _measured(lambda: pr.simulate_timing(pr.load_workload("digits-cnn", {}), workers=workers, strategy=GOSSIP, steps=steps, on=on))


def _measured(go: Callable[[], pr.Run]) -> Measured:
    began, cpu = time.perf_counter(), time.process_time()
    summary = go().summary
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    taken = summary.workers * summary.steps
    return {
        "system": summary.system,
        "workers": summary.workers,
        "steps": summary.steps,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "worker_steps_per_second": round(taken / cpu),
        "messages": summary.messages_sent,
        "virtual_seconds": summary.virtual_seconds,
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
    }


def _alone(measure: Callable[..., Measured], *given: Any) -> Measured:
    """What `measure` finds in a process of its own, whose memory nothing else has used, and which gives the system back what it frees."""
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "65536")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, given)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", nargs="*", default=[], metavar="SYSTEM")
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--timing", nargs="*", default=[], metavar="WORKERSxSTEPS")
    parser.add_argument("--network", default="wan-11")
    parser.add_argument("--collectives", choices=COLLECTIVES, default="messages")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    on = pr.Simulator(network=given.network, collectives=COLLECTIVES[given.collectives])
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d"), "network": given.network}
    found: dict[str, Measured] = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    for system in given.real:
        measured = _alone(trained, system, given.workers, given.steps, on)
        found[f"{system} {given.workers}x{measured['steps']} {given.collectives}"] = machine | measured
    for load in given.timing:
        workers, steps = map(int, load.split("x"))
        found[f"timing {load}"] = machine | _alone(timed, workers, steps, on)
    print(json.dumps(found, indent=2))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
