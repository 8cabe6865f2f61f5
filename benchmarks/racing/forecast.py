"""Which of our ways to race: all of them in the simulator, with real gradients, on the seed of the tuning."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

import polyrhythm as pr
from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.kernel.port import Port
from polyrhythm.hardware import network as networks
from racing.ours import STRATEGIES, attached, named
from racing.task import Task

SEED = 100
STEPS = {"digits": 240, "chars": 480}
START = 60.0
"""Virtual seconds at which all begin; by then every worker has the first weights."""
SECONDS_PER_STEP = {"digits": 0.009, "chars": 0.060}
"""Three hosts on two cores, and two; measured in the lab."""


def show(task: Task, chosen: Sequence[str], ways: Sequence[str], rates: Mapping[str, float]) -> None:
    """A table in Markdown: virtual seconds to the target on each network."""
    torch.set_num_threads(1)
    print("| way | " + " | ".join(Path(name).stem for name in chosen) + " | samples |\n" + "|---" * (len(chosen) + 2) + "|")
    for way in ways:
        found = [seconds(task, way, name, rates.get(way, task.rates[0])) for name in chosen]
        samples = ", ".join(dict.fromkeys(str(count) if count else "none" for _, count in found))
        print(f"| `{way}` | " + " | ".join(f"{each:.2f}" for each, _ in found) + f" | {samples} |", flush=True)


def seconds(task: Task, way: str, network: str, rate: float) -> tuple[float, int]:
    """Virtual seconds and samples of all workers until the target; infinite where it is not reached."""
    period = STRATEGIES[way][1]

    def train(worker: pr.Worker) -> None:
        model, optimizer = task.begin(SEED, rate)
        contestant = attached(worker, model, optimizer, period, task.batch)
        context = worker._context  # nothing else can make virtual workers begin together, as those of the race do
        context.perform(_until(context.port, START))
        for number, (x, y) in zip(range(1, STEPS[task.name] + 1), task.batches(SEED, worker.rank, worker.workers), strict=False):
            contestant.step(task.loss(contestant.model(x), y))
            if worker.rank == 0 and number % task.interval == 0 and number % period == 0:
                worker.report(**{task.metric: task.judge(model)})

    devices = pr.hardware.Profile("lab", (SECONDS_PER_STEP[task.name],))
    try:
        run = pr.run(
            train, workers=task.workers, strategy=named(way), on=pr.Simulator(network=networks.load(network), devices=devices), seed=SEED
        )
    except pr.PolyrhythmError as error:
        print(f"{way} on {network}: {error}", file=sys.stderr)
        return float("inf"), 0
    told = [
        event for event in run.outcome.events if isinstance(event, Reported) and event.actor == "worker/0" and task.metric in event.metrics
    ]
    there = next((event for event in told if task.reached(event.metrics[task.metric])), None)
    return (there.time - START, there.clock * task.batch * task.workers) if there else (float("inf"), 0)


async def _until(port: Port, moment: float) -> None:
    await port.sleep(moment - port.now())
