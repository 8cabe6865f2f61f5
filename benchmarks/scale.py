"""How many virtual workers the simulator carries: seconds, worker-steps a second, and the most memory of one process.

    python benchmarks/scale.py [--real gaia ako gossipgrad dlion] [--workers 1000] [--steps 50] [--timing 1000x100 10000x10]
        [--reduce 10000] [--collectives messages] [--json FILE]

`--real`: each of these systems trains digits-cnn with real gradients, so many workers for so many steps, with batches of one sample where
there are too few for more. `--timing`: gossip by `pr.simulate_timing`, workers x steps, after a run of two workers that has imported what
is imported once; the bare kernel (a message and its receipt through flows, by so many workers) is measured in the same process before and
after. `--reduce`: sums in closed form over so many workers, by programs of the kernel's own, one and six in a run. Each run has a process
of its own; figures are added to those that the file has.
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

import torch

import polyrhythm as pr
from kernel import no_service, ping_pong, seconds_of
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.topology.collective.algorithms.ring import Ring
from polyrhythm.workloads.digits import TRAINING_SAMPLES, DigitsCnn

GOSSIP = "gossipgrad"
KERNEL_ROUNDS = 10
ELEMENTS = 21_546
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
    job, flows = pr.load_workload("digits-cnn", {}), pr.Simulator(network=on.network, separate_randomness=False)
    pr.simulate_timing(job, workers=2, strategy=GOSSIP, steps=1, on=on)
    pairs = workers // 2 * 2
    bare = seconds_of(ping_pong, flows, pairs, KERNEL_ROUNDS)
    found = _measured(lambda: pr.simulate_timing(job, workers=workers, strategy=GOSSIP, steps=steps, on=on))
    bare += seconds_of(ping_pong, flows, pairs, KERNEL_ROUNDS)
    message, step = bare / (2 * pairs * KERNEL_ROUNDS), found["cpu_seconds"] / (workers * steps)
    return found | {"kernel_microseconds_per_message": round(1e6 * message, 1), "step_in_kernel_messages": round(step / message, 1)}


def reduced(workers: int, sums: int, on: pr.Simulator) -> Measured:
    """`sums` sums over all workers in closed form, of vectors as long as the weights of digits-cnn."""
    value, everyone = torch.zeros(ELEMENTS), tuple(map(worker, range(workers)))

    async def summed(port: Port, group: Group) -> None:
        for number in range(sums):
            await port.reduce(value, f"sum/{number}", group, Ring())

    def program(context: WorkerContext) -> None:
        context.perform(summed(context.port, Group("", everyone, rank_of(context.port.name))))

    on = pr.Simulator(network=on.network, collectives=pr.ClosedForm(), separate_randomness=False)
    began, cpu = time.perf_counter(), time.process_time()
    ending = on.execute(Job(workers, 0, program, no_service, lambda actor: True), lambda event: None)
    return {
        "workers": workers,
        "sums": sums,
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "messages": ending.messages_sent,
        "virtual_seconds": ending.seconds,
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
    }


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
    parser.add_argument("--reduce", nargs="*", type=int, default=[], metavar="WORKERS")
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
        found[f"timing {given.network} {load}"] = machine | _alone(timed, workers, steps, on)
    for workers in given.reduce:
        for sums in (1, 6):
            found[f"closed-form sums {workers}x{sums}"] = machine | _alone(reduced, workers, sums, on)
    print(json.dumps(found, indent=2))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
