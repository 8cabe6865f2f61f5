"""How far the simulator is from real runs: step time and bytes of each system on several networks of the lab.

    python benchmarks/fidelity.py --out fidelity                      # all; root, because the lab needs it
    python benchmarks/fidelity.py --out fidelity --systems allreduce downpour --networks slow home

For each network three hosts are joined by `polyrhythm lab`. They measure what joins them (`network_between`). Then, for each system,
host 0 takes a profile while the others wait, `device_profile(train, workers=3, strategy=system)`, whose steps hold what workers and
servers compute, and right after that all three train `digits-mlp`'s model. For systems that mostly wait for the network, and not for
each other, the profile is that of one worker: three then seldom share the cores. The simulator is given the profile, the network, the
same seed and the same training function. Each run is predicted from the profile taken right before it, and medians are compared. Where it
matters who comes first, small differences decide, in the simulator as in the lab: there are several runs then, and the steps of a
prediction vary as those of its profile do.

Three hosts are emulated on one machine that may have two cores. So that they seldom take these from each other, as hosts in earnest
never do, a step's gradients take `hosts.PACE` seconds, as on a slower device: the training function sleeps for what is left of them. The
simulator charges the profile for that and need not sleep.

A step's seconds are (end of the last step - end of the last warm-up step) / steps, the mean of the workers. Bytes are all that all
actors sent in the whole run. With `--nominal` the simulator is given the network as the lab was, not as it was measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import hosts
import msgspec
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment
from polyrhythm.core.training.worker import Worker
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.network_json import network_json
from polyrhythm.hardware.placement import Local, WithWorkers
from polyrhythm.tools.measuring.calibrate import device_profile
from polyrhythm.tools.measuring.links import congestion_here, local_between, network_between, survey_job
from polyrhythm.workloads.digits import digits, wide_mlp

SEED = 7
SHORT = {"sparknet": {"period": 5}, "easgd": {"period": 5}, "diloco": {"period": 5}, "onebit": {"warmup": 2}}
"""Intervals that end within a short run; all else is as published."""
SYSTEMS = [name for name in pr.systems.SYSTEMS if name != "single"]


@dataclass(frozen=True, slots=True)
class Course:
    """What joins the hosts; the steps of a run on it, those that warm up and all; and the runs where it matters who comes first."""

    network: str | Network
    warm_up: int
    steps: int
    runs: int = 7


NETWORKS = {
    "slow": Course("slow", 5, 10),
    "200-mbit": Course(Network.uniform("200-mbit", "200 Mbit/s", "0.5 ms"), 5, 25),
    "home": Course("home", 5, 10, runs=3),  # one takes five minutes
    "1-gbit": Course(Network.uniform("1-gbit", "1 Gbit/s", "0.1 ms"), 5, 165),
    "wan-3": Course("wan-3", 10, 20),  # on a long path windows open over several exchanges
}
UNORDERED = {"downpour", "ssp", "softsync", "easgd", "strom"}
"""It matters who comes first."""
LIGHT = {"onebit": 4}
"""Their steps are short, and so many times as many are taken: what congestion control does every ten seconds (BBR lets a path run dry to
measure its latency) must not fall into a run of three seconds or miss it by chance."""
PATIENT = {"downpour", "ssp", "softsync"}
"""They send everything at every step, and wait for the network rather than for each other."""
CHANGING = {"strom": (10, 40)}
"""Steps become dearer while the training goes on: the steps that warm up, and all, as many as a profile has, on every network."""


@dataclass(frozen=True, slots=True)
class Train:
    """The model, data and optimizer of `digits-mlp`, for so many steps of each worker and without evaluation.

    Gradients take at least `pace` seconds.
    """

    steps: int
    pace: float = hosts.PACE
    name: str = "digits-mlp"

    def __call__(self, worker: Worker) -> None:
        training, _ = digits()
        model = wide_mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        model, optimizer = worker.attach(model, optimizer)
        hosts.train(worker, model, optimizer, training, self.steps, self.pace)


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of a step, and bytes that all actors sent."""

    seconds: float
    nbytes: int


def strategy(system: str) -> pr.Strategy:
    return pr.systems.find(system, **SHORT.get(system, {}))


def seconds_per_step(events: Iterable[AnyEvent], warm_up: int) -> float:
    """The mean of the workers that are in `events`, after the warm-up."""
    ended: dict[str, list[float]] = {}
    for event in events:
        if isinstance(event, Stepped):
            ended.setdefault(event.actor, []).append(event.time)
    return statistics.mean((times[-1] - times[warm_up - 1]) / (len(times) - warm_up) for times in ended.values())


def lengths(system: str, network: str) -> tuple[int, int]:
    """The steps that warm up, and all."""
    course = NETWORKS[network]
    return CHANGING.get(system, (course.warm_up, course.steps * LIGHT.get(system, 1)))


def runs_of(system: str, network: str, least: int) -> int:
    """How often it is run for real."""
    return max(least, NETWORKS[network].runs) if system in UNORDERED else least


def host(directory: Path, systems: list[str], runs: int) -> None:
    """What one host of the lab does: measure the network, and take part in a run of each system."""
    torch.set_num_threads(1)
    place = find_rank_environment()
    with enter(survey_job(hosts.WORKERS), _ignore) as joined:
        measured = network_between(joined.context, Group.of_workers(hosts.WORKERS, place.rank), "measured", congestion=congestion_here())
    if place.rank == 0:
        (directory / "network.json").write_text(network_json(measured))
    counts = {system: runs_of(system, directory.name, runs) for system in systems}
    for number in range(max(counts.values())):
        for system in (each for each in systems if number < counts[each]):
            if place.rank == 0:
                (directory / f"{system}-{number}-profile.json").write_bytes(msgspec.json.encode(profile_of(system)))
            warm_up, length = lengths(system, directory.name)
            events: list[AnyEvent] = []
            ending = hosts.take_part(Train(length), strategy(system), SEED, events.append)
            mine = Taken(seconds_per_step(events, warm_up), ending.bytes_sent)  # bytes are those of the whole run, at every rank
            (directory / f"{system}-{number}-{place.rank}.json").write_text(json.dumps(asdict(mine)))
            if place.rank == 0:
                print(f"{system}: {mine.seconds * 1e3:.1f} ms a step", flush=True)


def _ignore(event: AnyEvent) -> None:
    return None


def nominal(given: str | Network) -> Network:
    """What the lab is given."""
    return networks.load(given) if isinstance(given, str) else given


def run_in_lab(directory: Path, given: str | Network, options: argparse.Namespace) -> None:
    """Have three hosts write what each saw into `directory`."""
    arguments = ["--host", str(directory), "--systems", *options.systems, "--runs", str(options.runs)]
    hosts.in_lab(__file__, arguments, nominal(given), directory / "given.json")


def taken(directory: Path, system: str, runs: int) -> tuple[Taken, list[float]]:
    """The median of the runs, from what the hosts have written, and the seconds of each."""
    tries = []
    for number in range(runs):
        ranks = [json.loads((directory / f"{system}-{number}-{rank}.json").read_text()) for rank in range(hosts.WORKERS)]
        tries.append(Taken(statistics.mean(each["seconds"] for each in ranks), ranks[0]["nbytes"]))
    return _median(tries)


def _median(tries: list[Taken]) -> tuple[Taken, list[float]]:
    seconds = sorted(each.seconds for each in tries)
    return Taken(statistics.median(seconds), tries[0].nbytes), seconds


def predicted(directory: Path, system: str, runs: int, network: Network) -> tuple[Taken, list[float]]:
    """The same in virtual time, each from its own profile."""
    warm_up, length = lengths(system, directory.name)
    draws = []
    for number in range(runs):
        profile = msgspec.json.decode((directory / f"{system}-{number}-profile.json").read_bytes(), type=Profile)
        devices = _varied(profile) if system in UNORDERED else profile
        on = pr.Simulator(network=network, devices=devices, seed=number)
        run = pr.run(Train(length, pace=0.0), workers=hosts.WORKERS, strategy=strategy(system), on=on, seed=SEED)
        draws.append(Taken(seconds_per_step(run.outcome.events, warm_up), run.summary.bytes_sent))
    return _median(draws)


def _varied(profile: Profile) -> pr.hardware.Fleet:
    """Steps that vary by chance as those of the profile do in turn."""
    seconds = profile.seconds_per_step
    mean = Profile("mean", (statistics.mean(seconds),), profile.seconds_per_contribution)
    return pr.hardware.Fleet((mean,), (pr.hardware.Jitter(statistics.stdev(map(math.log, seconds))),), mean)


def rows(name: str, options: argparse.Namespace, local: Local) -> list[dict[str, Any]]:
    """The runs on one network beside their predictions."""
    given, directory = NETWORKS[name].network, options.out / name
    directory.mkdir(parents=True, exist_ok=True)
    if not options.again:
        run_in_lab(directory, given, options)
    network = replace(nominal(given), congestion=congestion_here()) if options.nominal else networks.load(directory / "network.json")
    network = replace(network, placement=WithWorkers(), local=local)
    found = []
    for system in options.systems:
        count = runs_of(system, name, options.runs)
        mine, runs = taken(directory, system, count)
        told, draws = predicted(directory, system, count, network)
        warm_up, length = lengths(system, name)
        row = {
            "network": name,
            "system": system,
            "warm_up": warm_up,
            "steps": length - warm_up,
            "pace": hosts.PACE,
            "load": os.getloadavg()[0],
            "seconds": mine.seconds,
            "predicted": told.seconds,
            "error": told.seconds / mine.seconds - 1,
            "runs": runs,
            "draws": draws,
            "bytes": mine.nbytes,
            "bytes_predicted": told.nbytes,
        }
        print(line(row), flush=True)
        found.append(row)
    return found


def profile_of(system: str) -> Profile:
    return device_profile(Train(1000), workers=1 if system in PATIENT else hosts.WORKERS, steps=30, seed=SEED, strategy=strategy(system))


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    exact = "exact" if row["bytes"] == row["bytes_predicted"] else f"{row['bytes_predicted'] / row['bytes'] - 1:+.2%}"
    times = f"{row['seconds'] * 1e3:.1f} | {row['predicted'] * 1e3:.1f} | {row['error']:+.1%}"
    return f"| {row['network']} | {row['system']} | {times} | {row['bytes'] / 1e6:.1f} | {exact} |"


def matrix(table: list[dict[str, Any]]) -> list[str]:
    """Systems by networks: real milliseconds of a step, and the error of the prediction."""
    names = list(dict.fromkeys(row["network"] for row in table))
    cells = {(row["system"], row["network"]): row for row in table}
    lines = ["| | " + " | ".join(names) + " | bytes |", "| --- |" + " --: |" * (len(names) + 1)]
    for system in dict.fromkeys(row["system"] for row in table):
        found = [cells[system, name] for name in names]
        worst = max((row["bytes_predicted"] / row["bytes"] - 1 for row in found), key=abs)
        shown = [f"{row['seconds'] * 1e3:.0f} ms, {row['error']:+.1%}" for row in found]
        lines.append(f"| {system} | " + " | ".join([*shown, f"{worst:+.2%}" if worst else "exact"]) + " |")
    medians = [f"{statistics.median(abs(cells[key]['error']) for key in cells if key[1] == name):.1%}" for name in names]
    return [*lines, "| median error | " + " | ".join(medians) + " | |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("fidelity"))
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, choices=SYSTEMS)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--runs", type=int, default=1, help="of each cell at least; the median counts")
    parser.add_argument("--nominal", action="store_true", help="predict with the network that the lab was given")
    parser.add_argument("--again", action="store_true", help="predict again, from the records that an earlier call left in --out")
    parser.add_argument("--host", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        host(options.host, options.systems, options.runs)
        return
    torch.set_num_threads(1)
    local = local_between()
    table = [row for name in options.networks for row in rows(name, options, local)]
    errors = [abs(row["error"]) for row in table]
    summary = {"median": statistics.median(errors), "worst": max(errors)}
    (options.out / "fidelity.json").write_text(json.dumps({"rows": table, "load": os.getloadavg(), **summary}, indent=2) + "\n")
    lines = [*matrix(table), "", f"Error of step time: median {summary['median']:.1%}, worst {summary['worst']:.1%}."]
    (options.out / "fidelity.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
