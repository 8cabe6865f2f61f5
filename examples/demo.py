"""The main job: do several machines train faster than one? That depends on the network, and on the way of training together.

The same small GPT learns Python's help() to 3.4 bits per character, always 128 samples a step: for real, in one process and in two on this
machine; then in virtual time, on one Raspberry Pi and on sixteen that are joined by a fast network, or by lines of 50 Mbit/s and 20 ms.
Prints a table for each and what it means, and writes runs/demo/report.html. Then the planner answers the same question without being told
which systems to try at what rates: runs/demo/plan.html. docs/results.md says how the settings were chosen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import polyrhythm as pr
from polyrhythm.kernel.job import Runtime
from polyrhythm.planner.page import write as write_plan
from polyrhythm.report.metrics import Target, not_yet
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.page import write
from polyrhythm.report.table import text
from polyrhythm.units import show_window

OUT = Path("runs/demo")
TARGET = Target("bits", 3.4)
GLOBAL_BATCH, WORKERS = 128, 16
SETTINGS = {"layers": "2", "width": "64", "heads": "2", "learning_rate": "0.012"}

LOCAL_SGD = pr.Strategy(name="local-sgd", consistency=pr.LocalSteps(5), topology=pr.AllReduce(pr.Direct()))
"""A composition of one's own: five steps alone, then the mean of the weights, by the all-reduce with the fewest latencies."""
ON_NETWORKS: dict[str, tuple[str | pr.Strategy, ...]] = {
    "lan": ("allreduce", LOCAL_SGD),
    "slow": ("allreduce", "direct", LOCAL_SGD, "ssp"),
}
PLANNED = ("allreduce", "direct", "sparknet", "diloco", "streaming-diloco", "ssp", "adpsgd", "gossipgrad", "powersgd", "dgc")
PLAN_SECONDS = 120.0


def run(system: str | pr.Strategy, workers: int, on: Runtime) -> Outcome:
    """Train with `system`, the global batch shared out among `workers`."""
    train = pr.load_workload("chars-gpt", {**SETTINGS, "batch_size": str(GLOBAL_BATCH // workers)})
    name = system if isinstance(system, str) else system.name
    directory = OUT / (on.kind if on.network_name is None else f"{on.kind}-{on.network_name}") / name
    return pr.run(train, workers=workers, strategy=system, on=on, directory=directory).outcome


def show(title: str, outcomes: list[Outcome]) -> list[Outcome]:
    """Print the table of `outcomes` and the sentence under it."""
    print(f"\n{title}\n\n{text(outcomes, TARGET)}", end="", flush=True)
    return outcomes


def real() -> list[Outcome]:
    """On this machine's cores."""
    outcomes = [run(system, workers, pr.Processes()) for system, workers in (("single", 1), ("allreduce", 2), (LOCAL_SGD, 2))]
    return show("One process and two, for real, on this machine", outcomes)


def virtual() -> list[Outcome]:
    """On machines and networks that need not exist."""
    pi = "raspberry-pi-4"
    alone = run("single", 1, pr.Simulator(network=pr.Instant(), devices=pi))
    joined: list[Outcome] = []
    for network, systems in ON_NETWORKS.items():
        these = [run(system, WORKERS, pr.Simulator(network=network, devices=pi)) for system in systems]
        joined += show(f"One Raspberry Pi, and {WORKERS} over the network `{network}`, in virtual time", [alone, *these])[1:]
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
    """What the planner finds for sixteen machines on the slow network, among ten systems, with their options, rates and batches."""
    return pr.plan(
        pr.load_workload("chars-gpt"),
        "bits=3.4",
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
    print(f"\nWhich of {len(PLANNED)} systems would the planner choose for {WORKERS} over the network `slow`?\n")
    plan = planned()
    plan_page = write_plan(plan, OUT / "plan.html")
    print(pr.plan_text(plan))
    print(f"The reports are in {page} and {plan_page}. All this took {time.monotonic() - began:.0f} seconds.")


if __name__ == "__main__":
    main()
