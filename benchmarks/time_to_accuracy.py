"""Time to accuracy on lab networks: our ways, the rivals and one process alone, on the same batches from the same weights (root only).

    python benchmarks/time_to_accuracy.py [--task chars] [--networks slow fast] [--seeds 0 1 2] [--ways ddp local-sgd-8 …] [--json FILE]
    python benchmarks/time_to_accuracy.py --tune [--ways …]          the learning rate of each way, on seed 100, over loopback
    python benchmarks/time_to_accuracy.py --predict [--networks …]   our ways in the simulator on seed 100: which one to race

`digits`: `digits-mlp` (1.13 M parameters), three workers of batch 16, SGD with momentum 0.9, target 0.96. `chars`: `chars-gpt` (0.82 M),
two workers of batch 16, AdamW, target 2.6 bits. Seconds run from the first step's begin, when all are ready, until worker 0's model first
reaches the target; every few hundred samples all workers judge their model, and the clock of each stands still meanwhile. Where workers
hold one merged model, only that is judged; ways that have none are marked †. Rates come from the task's grid: that with which a way
needs the fewest samples on seed 100, in benchmarks/racing/rates.json.
Networks are presets, `middling` (200 Mbit/s, 0.5 ms), `fast` (1 Gbit/s, 0.1 ms), or files.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import drawing
from racing import forecast, host, ours, rivals
from racing.task import TASKS, Heat, Task

HERE = Path(__file__).parent
RATES = HERE / "racing" / "rates.json"
TUNING_SEED = 100
CAPS = {"slow": 150.0, "home": 150.0}
CAP = 60.0
SHORT = {"hivemind": 45.0, "hivemind-local": 45.0}
"""Caps of ways that are known not to come near the target in minutes; `--cap` holds for all."""
RIVALS = ("alone", "ddp", "ddp-fp16", "ddp-powersgd-1", "ddp-powersgd-2", "local-sgd-8", "local-sgd-16", "local-sgd-32", "hivemind-local")
RACED = ("local-8-onebit", "local-8-topk", "free-8-onebit")
"""The default selection takes about a quarter of an hour: of our ways the best of the forecasts; of the rivals not those that send and
compute what `ddp` does (DeepSpeed), for two minutes a run on `slow`."""


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(TASKS), default="digits")
    parser.add_argument("--networks", nargs="+", default=["slow", "fast"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", default=[*RIVALS, *RACED], choices=list(host.WAYS), metavar="WAY")
    parser.add_argument("--cap", type=float, help="seconds a run, by its own clock; else 150 on slow and home, 60 on others")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="an SVG of the medians")
    parser.add_argument("--rank-program", type=Path, metavar="HEATS", help="what each host of the lab runs")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # an exception, so that what was started is ended
    if given.rank_program:
        host.serve([Heat(**heat) for heat in json.loads(given.rank_program.read_text())])
    elif given.predict:
        task = TASKS[given.task]
        forecast.show(task, [_network(name) for name in given.networks], [way for way in given.ways if way in ours.WAYS], _rates(task))
    elif given.tune:
        tune(TASKS[given.task], _able(given.ways))
    else:
        race(given)


def race(given: argparse.Namespace) -> None:
    """All ways and seeds on each network, and the tables."""
    task = TASKS[given.task]
    rates = _rates(task)
    ways = _able(given.ways)
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in given.networks:
        longest = CAPS.get(name, CAP)
        # ways take turns, so that a busy minute of the machine does not fall to one of them
        heats = [
            Heat(task.name, way, seed, rates.get(way, task.rates[0]), given.cap or min(longest, SHORT.get(way, longest)))
            for seed in given.seeds
            for way in ways
        ]
        rows[name] = []
        for row in heard(name, heats):
            rows[name].append(row)
            told = (
                row.get("error") or f"{'reached' if row['reached'] else 'not reached'} in {row['seconds']:.2f} s, {row['samples']} samples"
            )
            print(f"{name}, {row['way']}, seed {row['seed']}: {told}", file=sys.stderr, flush=True)
            if given.json:
                chosen = {way: rates.get(way, task.rates[0]) for way in ways}
                kept = {"task": task.name, "target": task.target, "workers": task.workers, "rates": chosen, "runs": rows}
                given.json.write_text(json.dumps(kept, indent=1) + "\n")
        print(table(task, name, rows[name]), flush=True)
    if given.plot:
        given.plot.write_text(drawing.bars({name: medians(runs) for name, runs in rows.items()}, set(ours.WAYS), "time to accuracy"))


def tune(task: Task, ways: Sequence[str]) -> None:
    """Choose each way's rate by samples, over loopback, and keep the choices."""
    heats = [Heat(task.name, way, TUNING_SEED, rate, 120.0) for way in ways for rate in task.rates]
    rates = _rates(task)
    needed: dict[str, dict[float, float]] = {way: {} for way in ways}
    for row in heard("loopback", heats):
        needed[row["way"]][row["rate"]] = row["samples"] if row["reached"] else float("inf")
        if len(needed[row["way"]]) == len(task.rates):
            samples = needed[row["way"]]
            rates[row["way"]] = min(samples, key=lambda rate: samples[rate])
            print(
                f"| `{row['way']}` | " + " | ".join(f"{samples[rate]:g}" for rate in task.rates) + f" | {rates[row['way']]} |", flush=True
            )
            RATES.write_text(json.dumps({**_all_rates(), task.name: rates}, indent=2) + "\n")


def heard(network: str, heats: Sequence[Heat]) -> Iterator[dict[str, Any]]:
    """Run heats of one task on one network and give each result as it comes; `loopback` is plain processes of this host."""
    workers = TASKS[heats[0].task].workers
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "heats.json"
        file.write_text(json.dumps([asdict(heat) for heat in heats]))
        program = [sys.executable, str(Path(__file__).resolve()), "--rank-program", str(file)]
        started = _locally(program, workers) if network == "loopback" else _in_lab(_network(network), program, workers)
        try:
            assert started[0].stdout is not None
            for line in started[0].stdout:
                if line.startswith(host.MARK):
                    yield json.loads(line.removeprefix(host.MARK))
            if started[0].wait():
                raise SystemExit(f"The race on {network} ended early: what was printed above says why.")
        finally:
            for process in started:
                process.terminate()
                process.wait()


def _locally(program: list[str], workers: int) -> list[subprocess.Popen[str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = min(free.getsockname()[1], 40_000)
    place = {"WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(program, env={**os.environ, **place, "RANK": str(rank)}, stdout=None if rank else subprocess.PIPE, text=True)
        for rank in range(workers)
    ]


def _in_lab(network: str, program: list[str], workers: int) -> list[subprocess.Popen[str]]:
    lab = [sys.executable, "-m", "polyrhythm", "lab", "--hosts", str(workers), "--network", network, "--quiet", "--"]
    return [subprocess.Popen([*lab, *program], stdout=subprocess.PIPE, text=True)]


def _network(name: str) -> str:
    mine = HERE / "networks" / f"{name}.json"
    return str(mine) if mine.exists() else name


def _rates(task: Task) -> dict[str, float]:
    return _all_rates().get(task.name, {})


def _all_rates() -> dict[str, dict[str, float]]:
    """By task and way."""
    return json.loads(RATES.read_text()) if RATES.exists() else {}


def _able(ways: Sequence[str]) -> list[str]:
    for way in ways:
        if reason := rivals.missing(way):
            print(reason, file=sys.stderr)
    return [way for way in ways if rivals.missing(way) is None]


def medians(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The median seconds of each way; infinite where most of its runs did not reach the target."""
    ways = dict.fromkeys(run["way"] for run in runs)
    times = {way: [run["seconds"] if run["reached"] else float("inf") for run in runs if run["way"] == way] for way in ways}
    return {way: statistics.median(sorted(seconds)) for way, seconds in times.items()}


def table(task: Task, network: str, runs: Sequence[dict[str, Any]]) -> str:
    """One network's ways in Markdown, the fastest first."""
    middle = medians(runs)
    lines = [
        f"\n| {network} | seconds to {task.metric} {task.target} (least to greatest) | of `ddp` | samples | ms a step |",
        "|---|---|---|---|---|",
    ]
    for way in sorted(middle, key=lambda each: middle[each]):
        mine = [run for run in runs if run["way"] == way]
        there = [run for run in mine if run["reached"]]
        mark = " †" if way in ours.OWN_REPLICA | rivals.OWN_REPLICA else ""
        if not there:
            why = mine[0].get("error") or f"not reached in {mine[0]['cap']:.0f} s; at best {_best(task, mine):.3f}"
            lines.append(f"| `{way}`{mark} | {why} | | | {_step(mine)} |")
            continue
        spread = f"{there[0]['seconds']:.2f}" if len(mine) == 1 else _spread(middle[way], mine)
        ratio = f"{middle[way] / middle['ddp']:.3f}" if 0 < middle.get("ddp", 0) < float("inf") else ""
        samples = statistics.median(run["samples"] for run in there)
        lines.append(f"| `{way}`{mark} | {spread} | {ratio} | {samples:,.0f} | {_step(mine)} |")
    return "\n".join(lines)


def _spread(middle: float, runs: Sequence[dict[str, Any]]) -> str:
    seconds = sorted(run["seconds"] for run in runs if run["reached"])
    missed = f"; {len(runs) - len(seconds)} of {len(runs)} not reached" if len(seconds) < len(runs) else ""
    shown = f"{middle:.2f}" if middle < float("inf") else "not reached"
    return f"{shown} ({seconds[0]:.2f} to {seconds[-1]:.2f}{missed})"


def _step(runs: Sequence[dict[str, Any]]) -> str:
    steps = [1e3 * run["seconds"] / run["steps"] for run in runs if run["steps"] and run["seconds"]]
    return f"{statistics.median(steps):.1f}" if steps else ""


def _best(task: Task, runs: Sequence[dict[str, Any]]) -> float:
    return (max if task.higher_is_better else min)((point[2] for run in runs for point in run["curve"]), default=float("nan"))


if __name__ == "__main__":
    main()
