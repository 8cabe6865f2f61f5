"""How far the simulator is from real runs on what it was never compared with: run once, and not used to improve it.

    python benchmarks/held_out.py --out held_out          # root, because the lab needs it; about 20 minutes on an idle machine

`fidelity.py`'s table was improved while its cells were in view. Here the model, the numbers of hosts, the networks and the kind of
device are others, and all of it was fixed before the first run: a GPT of 0.43 M parameters under AdamW, on 4 hosts that send at
30 Mbit/s and receive at 60 with 35 ms between them, and on 5 hosts of three kinds, the slowest at 20 Mbit/s up. Gradients take 0.1 s
(`PACE`), so that emulated hosts seldom need the same core. Each cell is predicted twice: from a measured profile, as `calibrate` takes it
right before the run, and from a counted device whose speed is the operations of a step in 0.1 s. The network is the one that the hosts
have measured.

Where it matters who comes first there are three runs and three predictions, and medians of both are compared. Errors are given by their
median and by their mean, of sizes and with signs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from fidelity import seconds_per_step

import polyrhythm as pr
from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.location import unplaced
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.work import make_job
from polyrhythm.core.training.worker import Worker
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.devices import Device, Machine, Profile
from polyrhythm.hardware.network import Network, Site
from polyrhythm.hardware.network_json import network_json
from polyrhythm.hardware.placement import WithWorkers
from polyrhythm.tools.measuring.calibrate import device_profile
from polyrhythm.tools.measuring.links import congestion_here, local_between, network_between, survey_job
from polyrhythm.tools.measuring.timing import shape_of
from polyrhythm.workloads.chars import corpus, windows
from polyrhythm.workloads.gpt import Gpt, GptSize

SEED, WARM_UP, STEPS, RUNS = 11, 5, 15, 3
PACE = 0.1
OVERHEAD = 2e-3
SYSTEMS: dict[str, dict[str, Any]] = {
    "allreduce": {}, "tree": {}, "ssp": {"slack": 2}, "softsync": {},
    "sparknet": {"period": 3}, "easgd": {"period": 3}, "gossipgrad": {}, "diloco": {"period": 3},
}  # fmt: skip
UNORDERED = {"ssp", "softsync", "easgd"}
_MBIT = 1e6 / 8


def _joined(name: str, up: list[float], down: list[float], latency: float) -> Network:
    sites = [Site(f"host-{k}", a * _MBIT, b * _MBIT) for k, (a, b) in enumerate(zip(up, down, strict=True))]
    pairs = [(a.name, b.name) for a in sites for b in sites if a is not b]
    return Network.joined(name, sites, dict.fromkeys(pairs, latency), dict.fromkeys(pairs, 200 * _MBIT))


NETWORKS = {
    "4 hosts, 30 up, 60 down, 35 ms": _joined("four", [30] * 4, [60] * 4, 0.035),
    "5 hosts of three kinds, 12 ms": _joined("five", [100, 100, 50, 50, 20], [100, 100, 100, 100, 80], 0.012),
}


@dataclass(frozen=True, slots=True)
class Train:
    """So many steps of each worker, without evaluation; gradients take at least `pace` seconds."""

    steps: int
    pace: float = PACE
    name: str = "gpt"

    def __call__(self, worker: Worker) -> None:
        text = corpus()
        data = windows(text.training, 64, 4096)
        model = Gpt(GptSize(text.vocabulary, 64, layers=2, width=128, heads=4))
        model, optimizer = worker.attach(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
        while True:
            for x, y in worker.batches(data, batch_size=4):
                began = time.perf_counter()
                optimizer.zero_grad()
                F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
                time.sleep(max(began + self.pace - time.perf_counter(), 0.0))
                optimizer.step()
                if worker.clock == self.steps:
                    return


def strategy(system: str) -> pr.Strategy:
    return pr.systems.find(system, **SYSTEMS[system])


def runs_of(system: str) -> int:
    return RUNS if system in UNORDERED else 1


def host(directory: Path, workers: int) -> None:
    """What one host of the lab does: measure the network, and take part in each run."""
    torch.set_num_threads(1)
    place = find_rank_environment()
    with enter(survey_job(workers), _ignore) as joined:
        measured = network_between(joined.context, Group.of_workers(workers, place.rank), "measured", congestion=congestion_here())
    if place.rank == 0:
        (directory / "network.json").write_text(network_json(measured))
    for system in SYSTEMS:
        for number in range(runs_of(system)):
            if place.rank == 0:
                profile = device_profile(Train(1000), workers=workers, steps=30, seed=SEED, strategy=strategy(system))
                (directory / f"{system}-{number}-profile.json").write_bytes(msgspec.json.encode(profile))
            job = make_job(Train(STEPS), StrategyPlan.of(strategy(system), unplaced(workers), SEED))
            events: list[AnyEvent] = []
            with enter(job, events.append) as joined:
                result = job.program(joined.context)
                ending = joined.leave(result)
            taken = {"seconds": seconds_per_step(events, WARM_UP), "nbytes": ending.bytes_sent}
            (directory / f"{system}-{number}-{place.rank}.json").write_text(json.dumps(taken))


def _ignore(event: AnyEvent) -> None:
    return None


def rows(name: str, out: Path) -> Iterator[dict[str, Any]]:
    """The runs on one network beside their predictions."""
    given = NETWORKS[name]
    workers, directory = len(given.sites), out / given.name
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "given.json"
    file.write_text(network_json(given))
    command = [sys.executable, os.path.abspath(__file__), "--host", str(directory), "--workers", str(workers)]
    lab = [sys.executable, "-m", "polyrhythm", "lab", "--hosts", str(workers), "--network", str(file), "--", *command]
    subprocess.run(lab, check=True)
    network = replace(networks.load(directory / "network.json"), placement=WithWorkers(), local=local_between())
    counted = Device("counted", shape_of(Train(10, pace=0.0)).flops / (PACE - OVERHEAD), OVERHEAD)
    for system in SYSTEMS:
        numbers = range(runs_of(system))
        real = [[json.loads((directory / f"{system}-{n}-{rank}.json").read_text()) for rank in range(workers)] for n in numbers]
        seconds = statistics.median(statistics.mean(each["seconds"] for each in run) for run in real)
        profiles = [msgspec.json.decode((directory / f"{system}-{n}-profile.json").read_bytes(), type=Profile) for n in numbers]
        row = {"network": name, "system": system, "seconds": seconds, "bytes": real[0][0]["nbytes"]}  # every rank has that of the whole run
        for kind, devices in (("profile", profiles), ("counted", [counted] * len(numbers))):
            told = [_predicted(system, workers, network, device, number) for number, device in enumerate(devices)]
            row |= {kind: statistics.median(time for time, _ in told), f"{kind} bytes": told[0][1]}
        print(line(row), flush=True)
        yield row


def _predicted(system: str, workers: int, network: Network, device: Machine, seed: int) -> tuple[float, int]:
    on = pr.Simulator(network=network, devices=device, seed=seed)
    run = pr.run(Train(STEPS, pace=0.0), workers=workers, strategy=strategy(system), on=on, seed=SEED)
    return seconds_per_step(run.outcome.events, WARM_UP), run.summary.bytes_sent


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    errors = " | ".join(f"{row[kind] / row['seconds'] - 1:+.1%}" for kind in ("profile", "counted"))
    same = "exact" if row["bytes"] == row["counted bytes"] else f"{row['counted bytes'] / row['bytes'] - 1:+.2%}"
    return f"| {row['network']} | {row['system']} | {row['seconds'] * 1e3:.0f} ms | {errors} | {same} |"


def summary(table: list[dict[str, Any]], kind: str) -> str:
    """Medians and means over the cells."""
    errors = [row[kind] / row["seconds"] - 1 for row in table]
    sizes = [abs(error) for error in errors]
    return (
        f"{kind}: size of the error {statistics.median(sizes):.1%} in the median, {statistics.mean(sizes):.1%} in the mean, "
        f"{max(sizes):.1%} at worst; "
        f"with its sign {statistics.median(errors):+.1%} and {statistics.mean(errors):+.1%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("held_out"))
    parser.add_argument("--host", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        host(options.host, options.workers)
        return
    torch.set_num_threads(1)
    table = [row for name in NETWORKS for row in rows(name, options.out)]
    (options.out / "held_out.json").write_text(json.dumps({"rows": table, "load": os.getloadavg()}, indent=2) + "\n")
    head = ["| network | system | real step | from a profile | from a counted device | bytes |", "| --- | --- | --: | --: | --: | --: |"]
    lines = [*head, *map(line, table), "", summary(table, "profile"), summary(table, "counted")]
    (options.out / "held_out.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
