"""Two sites at 50 Mbit/s and 20 ms, two workers each: the virtual time to a fixed loss of ways to divide a small GPT, with real gradients.

    python benchmarks/two_site_layouts.py --json benchmarks/results/two_site_layouts.json

"planner's choice" is the layout that `pr.plan_layouts` puts first for these machines, after six of them were trained;
its row says it.
All ways see the same 32 windows of 64 characters in a step. The target is a mean loss of 2.3 nats over the last 20 steps, fixed before;
each way is run with the learning rates `RATES`, and its best counts. Each has at most `STEPS` steps.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import deque
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import polyrhythm as pr
from polyrhythm.core.kernel.events import Reported
from polyrhythm.hardware import network
from polyrhythm.partition import Activations, Bottleneck, DelayedPipeline, GivenStages, Pipelined, SameDelay, Step, Zero
from polyrhythm.workloads.chars import corpus, windows
from polyrhythm.workloads.gpt import Gpt, GptSize

NETWORK = Path(__file__).parent / "networks" / "two_offices.json"
BATCH, CONTEXT, STEPS, TARGET, LAST = 32, 64, 240, 2.3, 20
RATES = (2e-3, 4e-3)
SIZE = GptSize(corpus().vocabulary, CONTEXT, layers=4, width=128, heads=4)
NARROW = 8
FLOPS = 2e10
"""Of a device: four of them are about as fast as two cores here."""
PLANNED = "planner's choice"


class NarrowGpt(Gpt):
    """A GPT with a bottleneck in its middle (ResBM)."""

    def __init__(self, size: GptSize) -> None:
        super().__init__(size)
        self.encode, self.decode = Bottleneck(NARROW).modules(size.width)

    def sequence(self) -> list[Step]:
        steps = super().sequence()
        middle = len(steps) // 2
        return [*steps[:middle], Step(self.encode, ("encode",)), Step(self.decode, ("decode",)), *steps[middle:]]


def stages(model: type[Gpt]) -> GivenStages:
    """Two stages, cut in the middle."""
    steps = len(model(SIZE).sequence())
    return GivenStages((steps // 2, steps - steps // 2))


def pipeline(model: type[Gpt] = Gpt, **options: Any) -> dict[str, Any]:
    cut = pr.Cut(pipeline=Pipelined(micro_batches=8, division=stages(model), **options))
    return {"mesh": pr.Mesh(pp=2, dp=2), "cut": cut, "strategy": {"dp": "allreduce"}}


WAYS: dict[str, tuple[type[Gpt], dict[str, Any]]] = {
    "all-reduce over all": (Gpt, {"mesh": pr.Mesh(dp=4), "strategy": "allreduce"}),
    "FSDP over all": (Gpt, {"mesh": pr.Mesh(dp=4), "strategy": {"dp": Zero(3)}}),
    "pipeline over the line": (Gpt, pipeline()),
    "4-bit activations": (Gpt, pipeline(boundary=Activations(4, 8))),
    "bottleneck": (NarrowGpt, pipeline(NarrowGpt)),
    "delayed": (Gpt, pipeline(schedule=DelayedPipeline(SameDelay(1)))),
    "delayed, 4-bit activations": (Gpt, pipeline(schedule=DelayedPipeline(SameDelay(1)), boundary=Activations(4, 8))),
    "FSDP inside, diloco between": (
        Gpt,
        {"mesh": pr.Mesh(site=2, dp=2), "strategy": {"site": pr.systems.find("diloco", period=10), "dp": Zero(3)}},
    ),
}


def machines() -> pr.Simulator:
    """The two sites."""
    return pr.Simulator(network=network.load(str(NETWORK)), devices=pr.Device("office", FLOPS))


@cache
def planned(rate: float) -> tuple[str, dict[str, Any]]:
    """The planner's first layout, in words and as `pr.run` is given it."""
    x, y = windows(corpus().training, CONTEXT, BATCH * STEPS).tensors
    job = pr.LayoutJob(partial(Gpt, SIZE), loss, partial(torch.optim.AdamW, lr=rate), (x, y), BATCH)
    space = pr.LayoutSpace(rules=({"heads": "tp", "mlp": "tp"},))
    plan = pr.plan_layouts(job, on=machines(), workers=4, space=space, runs=pr.ShortRuns(layouts=6, steps=STEPS, last=LAST, target=TARGET))
    print(plan, flush=True)
    return plan.best.candidate.name, plan.best.arguments


def loss(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def train(worker: pr.Worker, kind: type[Gpt], rate: float, steps: int) -> None:
    """Steps, or as many until the first worker has seen the target."""
    dataset = windows(corpus().training, CONTEXT, BATCH * steps)
    torch.manual_seed(0)
    model = kind(SIZE)
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model, optimizer = worker.attach(model, optimizer, loss=loss)
    for x, y in worker.batches(dataset, batch_size=BATCH // worker.replicas):
        optimizer.zero_grad()
        found = worker.train_step(x, y)
        optimizer.step()
        if not found.isnan():  # of a pipeline that is not full yet
            worker.report(loss=found)


def one(way: str, rate: float, steps: int = STEPS) -> dict[str, Any]:
    """The virtual seconds to the target, or None; bytes between the sites for each step."""
    torch.set_num_threads(1)
    chosen = ""
    if way == PLANNED:
        kind: type[Gpt] = Gpt
        chosen, arguments = planned(rate)
    else:
        kind, arguments = WAYS[way]
    began = time.perf_counter()
    run = pr.run(partial(train, kind=kind, rate=rate, steps=steps), on=machines(), seed=1, **arguments)
    recent: deque[float] = deque(maxlen=LAST)
    reached, last = None, 0.0
    losses: dict[float, list[float]] = {}
    for event in run.outcome.events:
        if isinstance(event, Reported):
            losses.setdefault(event.clock, []).append(event.metrics["loss"])
            last = event.time
    times = {event.clock: event.time for event in run.outcome.events if isinstance(event, Reported)}
    for clock in sorted(losses):
        recent.append(sum(losses[clock]) / len(losses[clock]))
        if reached is None and len(recent) == LAST and sum(recent) / LAST <= TARGET:
            reached = times[clock]
    between = run.summary.bytes_between_sites or 0
    return {
        "way": way, **({"layout": chosen} if chosen else {}),
        "rate": rate, "seconds": reached, "step": last / max(losses), "loss": sum(recent) / len(recent),
        "bytes between sites": between / max(losses), "real seconds": time.perf_counter() - began,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", default=[*WAYS, PLANNED], choices=[*WAYS, PLANNED])
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for way in options.ways:
        for rate in options.rates:
            rows.append(one(way, rate, options.steps))
            print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps({"load": os.getloadavg(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
