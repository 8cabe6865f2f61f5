"""The main job: do several machines train faster than one? That depends on the network, and on the way of training together.

The same small GPT learns Python's help() to 3.4 bits per character, always 128 samples a step, 50 steps at most: for real, in one process
and in two on this machine; then in virtual time, on one Raspberry Pi and on sixteen that are joined by a fast network, or by lines of 50
Mbit/s and 20 ms. Prints a table for each and what it means, and writes runs/demo/report.html. Then the planner answers the same question
without being told at what rates, batches and options: runs/demo/plan.html. So that all this takes two minutes, it chooses among four
systems, in half a minute, and for 3.8 bits; `polyrhythm plan` tries all systems, and takes as long as it is given. docs/results.md says
how the settings were chosen.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

import polyrhythm as pr
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.records.metrics import Target, not_yet
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.records.progress import board, ignore
from polyrhythm.core.training.run import Attempt
from polyrhythm.core.units import show_window
from polyrhythm.tools.cli.planned_run import PlannedRun
from polyrhythm.tools.planner.page import write as write_plan
from polyrhythm.tools.pools.run_pool import RunPool
from polyrhythm.tools.report.page import write
from polyrhythm.tools.report.table import text

OUT = Path("runs/demo")
TARGET = Target("bits", 3.4)
GLOBAL_BATCH, WORKERS = 128, 16
SETTINGS = {"layers": "2", "width": "64", "heads": "2", "learning_rate": "0.012", "samples": "6400"}

LOCAL_SGD = pr.Strategy(name="local-sgd", consistency=pr.consistency.LocalSteps(5), topology=pr.topology.AllReduce(pr.topology.Direct()))
"""A composition of one's own: five steps alone, then the mean of the weights, by the all-reduce with the fewest latencies."""
ON_NETWORKS: dict[str, tuple[str | pr.Strategy, ...]] = {
    "lan": ("allreduce",),
    "slow": ("allreduce", "direct", LOCAL_SGD, "ssp"),
}
PLANNED = ("direct", "sparknet", "diloco", "adpsgd")
PLAN_TARGET = "bits=3.8"
PLAN_SECONDS = 30.0


def planned_run(system: str | pr.Strategy, workers: int, on: Runtime) -> PlannedRun:
    """Training with `system`, the global batch shared out among `workers`; its record goes to a directory of its own."""
    train = pr.load_workload("chars-gpt", {**SETTINGS, "batch_size": str(GLOBAL_BATCH // workers)})
    strategy = system if isinstance(system, pr.Strategy) else pr.systems.find(system)
    place = f"{on.kind if on.network_name is None else f'{on.kind}-{on.network_name}'}/{strategy.name}"
    return PlannedRun(place, place, strategy, train, on, workers, seed=0)


def make(runs: Sequence[PlannedRun], jobs: int) -> list[Outcome]:
    """Make the runs, so many at once, and return their outcomes in the same order."""
    made: dict[int, Outcome] = {}

    def done(number: int, attempt: Attempt) -> None:
        if attempt.error is not None:
            raise attempt.error
        made[number] = attempt.outcome

    if jobs == 1:
        for number, each in enumerate(runs):
            done(number, each.attempt(OUT / each.place, ignore))
    else:
        with board(len(runs), wanted=True) as line:
            RunPool(jobs, line, done).work((number, each, OUT / each.place) for number, each in enumerate(runs))
    return [made[number] for number in range(len(runs))]


def show(title: str, outcomes: list[Outcome]) -> list[Outcome]:
    """Print the table of `outcomes` and the sentence under it."""
    print(f"\n{title}\n\n{text(outcomes, TARGET)}", end="", flush=True)
    return outcomes


def real() -> list[Outcome]:
    """On this machine's cores."""
    systems: tuple[tuple[str | pr.Strategy, int], ...] = (("single", 1), ("allreduce", 2))
    outcomes = make([planned_run(system, workers, pr.Processes()) for system, workers in systems], jobs=1)
    return show("One process and two, for real, on this machine", outcomes)


def virtual() -> list[Outcome]:
    """On machines and networks that need not exist; on every core of this machine at once, which changes nothing in virtual time."""
    pi = "raspberry-pi-4"
    runs = [planned_run("single", 1, pr.Simulator(network=pr.Instant(), devices=pi))]
    runs += [
        planned_run(system, WORKERS, pr.Simulator(network=network, devices=pi)) for network, them in ON_NETWORKS.items() for system in them
    ]
    alone, *joined = make(runs, jobs=os.cpu_count() or 1)
    for network in ON_NETWORKS:
        these = [outcome for outcome in joined if outcome.summary.network == network]
        show(f"One Raspberry Pi, and {WORKERS} over the network `{network}`, in virtual time", [alone, *these])
    return [alone, *joined]


def message(alone: Outcome, joined: Sequence[Outcome]) -> str:
    """What the runs say together: on each network who was how many times as fast as one machine, and who was slower."""
    one, reached = seconds(alone), TARGET.first_reached(alone)
    if reached is None:
        return f"One machine did not reach {TARGET}, so there is nothing to compare with."
    parts = []
    for network in dict.fromkeys(outcome.summary.network for outcome in joined):
        gains = {outcome.summary.system: one / seconds(outcome) for outcome in joined if outcome.summary.network == network}
        parts.append(f"over {network} {', '.join(told(name, gains[name]) for name in sorted(gains, key=lambda name: -gains[name]))}")
    when = show_window(not_yet(reached), reached.time)
    return f"One machine reaches {TARGET} {when} of virtual time. Of {WORKERS}, {'; '.join(parts)}."


def told(name: str, gain: float) -> str:
    """How much sooner or later than one machine; to two digits, for the moments of evaluation lie 9 % apart."""
    if gain > 1:
        return f"{name} is {gain:.2g} times as fast as one"
    return f"{name} takes {1 / gain:.2g} times as long as one" if gain else f"{name} does not reach the target"


def seconds(outcome: Outcome) -> float:
    """When the target was reached; infinity where it was not."""
    reached = TARGET.first_reached(outcome)
    return math.inf if reached is None else reached.time


def planned() -> pr.Plan:
    """What the planner finds for sixteen machines on the slow network, among a few systems, with their options, rates and batches."""
    return pr.plan(
        pr.load_workload("chars-gpt"),
        PLAN_TARGET,
        network="slow",
        devices="raspberry-pi-4",
        workers=(WORKERS,),
        settings={name: float(value) if "." in value else int(value) for name, value in SETTINGS.items()} | {"batch_size": 8},
        systems=PLANNED,
        budget=PLAN_SECONDS,
    )


def main() -> None:
    """Run all, print all, write the pages."""
    began = time.monotonic()
    outcomes = real()
    alone, *joined = virtual()
    page = write([*outcomes, alone, *joined], OUT / "report.html", "One machine or sixteen, on two networks", TARGET, "make demo")
    print(f"\n{message(alone, joined)}")
    print(
        f"\nWhich of {', '.join(PLANNED)} would the planner choose for {WORKERS} over the network `slow`, to {PLAN_TARGET}?\n", flush=True
    )
    plan = planned()
    plan_page = write_plan(plan, OUT / "plan.html")
    print(pr.plan_text(plan))
    print(f"The reports are in {page} and {plan_page}. All this took {time.monotonic() - began:.0f} seconds.")


if __name__ == "__main__":
    main()
