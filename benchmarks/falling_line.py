"""A line that falls from 50 to 5 Mbit/s in mid-run: systems with controllers against their own fixed settings, in the lab and predicted.

    python benchmarks/falling_line.py --out falling                     # all; root, because the lab needs it
    python benchmarks/falling_line.py --out falling --predict           # in virtual time alone
    python benchmarks/falling_line.py --out falling --again             # predict again, from the records of an earlier call

Three hosts train `digits` on a network of 50 Mbit/s and 5 ms; `FALL` seconds after the run has begun, the line of host 0 has 5 Mbit/s in
both directions. Each system runs with its controller, and with what its controller had set before the fall (`FIXED`), from the same
weights at the same learning rate. Counted are the seconds until the result has the target, and worker 0's steps from the fall until its
controller has gone half of the way (in logarithms). Seconds are interpolated between evaluations.
The simulator is given the network as the lab was, and a profile of the system's steps on this machine.

The lab's times count from when its hosts are connected. A host's process starts then, and the first step `START` seconds later; all times
here count from the end of that step.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import hosts
import torch
import torch.nn.functional as F
from torch import nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import Adjusted, AnyEvent, Evaluated, Stepped
from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment
from polyrhythm.core.training.worker import Worker
from polyrhythm.hardware.changes import ChangeEntry
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.tools.measuring.calibrate import device_profile
from polyrhythm.tools.measuring.links import congestion_here
from polyrhythm.workloads.digits import digits

RATE = 0.02
STEPS = 450
START = 12.0
FALL = 4.0
TARGET = 0.3
"""Of the held-out loss."""
SYSTEMS = ("ako", "hong-chandra", "dlion")
ADAPTIVE: dict[str, dict[str, Any]] = {"ako": {}, "hong-chandra": {}, "dlion": {"even": True}}
"""Batches by speed are left out: three hosts of one speed share two cores, and only chance would set them."""
FIXED: dict[str, dict[str, Any]] = {"ako": {"parts": 2}, "hong-chandra": {"parts": 1}, "dlion": {"percent": 100.0, "even": True}}
"""What the controllers set on 50 Mbit/s: two partitions to two others, one for each link, and of Max-N everything."""
Arm = tuple[str, bool]
ARMS: tuple[Arm, ...] = tuple((system, adaptive) for system in SYSTEMS for adaptive in (True, False))


@dataclass(frozen=True, slots=True)
class Train:
    """A network of 38,000 parameters on `digits`, evaluated. Gradients take at least `pace` seconds.

    Steps begin when the process is of that `age`.
    """

    steps: int = STEPS
    pace: float = hosts.PACE
    age: float = 0.0
    name: str = "digits"

    def __call__(self, worker: Worker) -> None:
        training, held_out = digits()
        torch.manual_seed(worker.seed)
        model: nn.Module = nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        model, optimizer = worker.attach(model, optimizer)
        worker.evaluate(lambda model: {"loss": F.cross_entropy(model(held_out.tensors[0]), held_out.tensors[1]).item()})
        time.sleep(max(0.0, self.age - _age()))
        hosts.train(worker, model, optimizer, training, self.steps, self.pace)


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds to the target, those of the whole run, and worker 0's steps until its controller had followed; infinite where it did not."""

    seconds: float
    whole: float
    followed: float


def strategy(arm: Arm) -> pr.Strategy:
    system, adaptive = arm
    return pr.systems.find(system, **(ADAPTIVE if adaptive else FIXED)[system])


def line(at: float) -> Network:
    """The network whose line falls `at` so many seconds."""
    slower = ChangeEntry(at=at, host=0, egress="5 Mbit/s", ingress="5 Mbit/s")
    return replace(Network.uniform("falling", "50 Mbit/s", "5 ms"), changes=(slower,))


def found(events: Sequence[AnyEvent]) -> Found:
    """From the events of worker 0, or of all."""
    steps = [event.time for event in events if isinstance(event, Stepped) and event.actor == "worker/0"]
    begun = steps[0]
    curve = [(event.time - begun, event.metrics["loss"]) for event in events if isinstance(event, Evaluated)]
    reached = [a + (b - a) * (x - TARGET) / (x - y) for (a, x), (b, y) in pairwise(curve) if y <= TARGET < x]
    return Found(min(reached, default=math.inf), steps[-1] - begun, _followed(events, steps))


def _followed(events: Sequence[AnyEvent], steps: Sequence[float]) -> float:
    """Partitions rise and bytes fall: until the logarithm of the first receiver's value has gone half of its way."""
    mine = [event for event in events if isinstance(event, Adjusted) and event.actor == "worker/0"]
    mine = [event for event in mine if event.receiver == mine[0].receiver]
    fall = steps[0] + FALL
    before = [event for event in mine if event.time <= fall]
    if not before or len(mine) == len(before):
        return math.inf
    since = [event for event in mine if event.time > fall]
    settled = statistics.median(event.value for event in since[len(since) // 2 :])
    half = math.sqrt(max(before[-1].value, 1e-9) * max(settled, 1e-9))
    for event in since:
        if min(half, settled) <= event.value <= max(half, settled) or (event.value - half) * (settled - half) > 0:
            return sum(1 for when in steps if fall < when <= event.time)
    return math.inf


def label(arm: Arm) -> str:
    return f"{arm[0]} {'adaptive' if arm[1] else 'fixed'}"


def file(directory: Path, arm: Arm, seed: int) -> Path:
    return directory / f"{label(arm).replace(' ', '-')}-{seed}.json"


def host(directory: Path, arm: Arm, seed: int) -> None:
    """What one host of the lab does."""
    torch.set_num_threads(1)
    digits()
    events: list[AnyEvent] = []
    hosts.take_part(Train(age=START), strategy(arm), seed, events.append)
    if find_rank_environment().rank == 0:
        file(directory, arm, seed).write_text(json.dumps(asdict(found(events))))


def _age() -> float:
    """Seconds since this process was started."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(Path("/proc/uptime").read_text().split()[0]) - started


def run_in_lab(directory: Path, arm: Arm, seed: int) -> Found:
    """The arm, for real."""
    arguments = ["--host", arm[0], str(int(arm[1])), str(seed), "--out", str(directory)]
    hosts.in_lab(__file__, arguments, line(START + FALL), directory / "given.json")
    return read(directory, arm, seed)


def read(directory: Path, arm: Arm, seed: int) -> Found:
    return Found(**json.loads(file(directory, arm, seed).read_text()))


def predicted(profile: Profile, arm: Arm, seed: int) -> Found:
    """The arm, in virtual time."""
    network = replace(line(FALL), congestion=congestion_here())
    on = pr.Simulator(network=network, devices=profile)
    run = pr.run(Train(pace=0.0), workers=hosts.WORKERS, strategy=strategy(arm), on=on, seed=seed)
    return found(run.outcome.events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("falling"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, choices=SYSTEMS)
    parser.add_argument("--predict", action="store_true", help="in virtual time alone")
    parser.add_argument("--again", action="store_true", help="predict again")
    parser.add_argument("--host", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        system, adaptive, seed = options.host
        host(options.out, (system, bool(int(adaptive))), int(seed))
        return
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    table = [row(options, arm) for arm in ARMS if arm[0] in options.systems]
    (options.out / "falling_line.json").write_text(json.dumps({"rows": table, "load": os.getloadavg()}, indent=2) + "\n")
    print("\n| | to the target | predicted | error | steps until it had followed |\n|---|--:|--:|--:|--:|")
    print("\n".join(shown(each) for each in table))


def row(options: argparse.Namespace, arm: Arm) -> dict[str, Any]:
    """One arm over all seeds. The steps of its profile hold what its codec computes."""
    real, told = [], []
    profile = device_profile(Train(1000), workers=hosts.WORKERS, steps=30, strategy=strategy(arm))
    for seed in options.seeds:
        told.append(predicted(profile, arm, seed))
        if not options.predict:
            real.append(read(options.out, arm, seed) if options.again else run_in_lab(options.out, arm, seed))
        print(f"{label(arm)}, seed {seed}: {real[-1] if real else ''} predicted {told[-1]}", flush=True)
    return {
        "arm": label(arm),
        "seconds": [each.seconds for each in real],
        "predicted": [each.seconds for each in told],
        "followed": [each.followed for each in real or told],
        "whole": [each.whole for each in real],
        "whole predicted": [each.whole for each in told],
    }


def shown(row: dict[str, Any]) -> str:
    """One row of the table, in medians."""
    told = statistics.median(row["predicted"])
    seconds = statistics.median(row["seconds"]) if row["seconds"] else math.nan
    return f"| {row['arm']} | {seconds:.1f} s | {told:.1f} s | {told / seconds - 1:+.0%} | {statistics.median(row['followed']):.0f} |"


if __name__ == "__main__":
    main()
