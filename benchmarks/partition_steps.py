"""Steps of ZeRO and of 1F1B on two processes: ours, torch's over gloo, and DeepSpeed's, side by side.

    .venv-bench/bin/python benchmarks/partition_steps.py [--rounds 7] [--compare zero-2 zero-3 1f1b-4 1f1b-8] [--nice -12] [--json FILE]

Every contestant has two processes of its own with one thread each, a GPT of 19 M parameters with the same first weights, the same windows
of text, and the same Adam. All of a comparison are started at first, and then take turns: in each round each takes some steps while the
others wait for their next turn; who begins alternates. The table has medians over the rounds: milliseconds of a step (of the slower rank,
waits included), those of its fastest round, those that a rank used a core (other work on the machine changes these less), the ratio of ours
to it within a round, the lowest and the highest of these, and the loss after the same steps. `partition_contestants.py` has them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import torch
from partition_contestants import COMPARED, RANKS

WARM_UP_STEPS = 3
SECONDS = 1.5
"""The time of one contestant in one round, about."""


@dataclass
class Contestant:
    """The processes of one, and the connections to its ranks."""

    name: str
    process: subprocess.Popen[bytes]
    ranks: list[Connection]

    @staticmethod
    def start(name: str, folder: Path, nice: int) -> Contestant:
        """Start it, and wait until its ranks are there; these have that niceness, each in a session of its own."""
        address = str(folder / f"{name}.socket")
        with Listener(address, "AF_UNIX") as listener:
            command = [sys.executable, str(Path(__file__).with_name("partition_contestants.py")), name, address]
            process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
            listener._listener._socket.settimeout(120)  # type: ignore[attr-defined]
            ranks = [listener.accept() for _ in range(RANKS)]
        processes = [rank.recv() for rank in ranks]
        if nice:
            for number in processes:
                Path(f"/proc/{number}/autogroup").write_text(str(nice))
        return Contestant(name, process, ranks)

    def take(self, steps: int) -> tuple[float, float, float]:
        """The seconds of a step, those of a core, and the loss of the last one."""
        for rank in self.ranks:
            rank.send(steps)
        found = [rank.recv() for rank in self.ranks]
        seconds, used, losses = zip(*found, strict=True)
        return max(seconds) / steps, statistics.mean(used) / steps, statistics.mean(losses)

    def end(self) -> None:
        """Let its processes end."""
        for rank in self.ranks:
            rank.send(0)
        self.process.wait(60)


def compare(names: tuple[str, ...], rounds: int, nice: int) -> dict[str, Any]:
    """What was measured of each; the first is ours."""
    with tempfile.TemporaryDirectory() as folder:
        found = [Contestant.start(name, Path(folder), nice) for name in names]
        first = {each.name: each.take(WARM_UP_STEPS) for each in found}
        steps = max(2, round(SECONDS / max(seconds for seconds, _, _ in first.values())))
        taken: dict[str, list[float]] = {name: [] for name in names}
        used: dict[str, list[float]] = {name: [] for name in names}
        losses: dict[str, float] = {}
        for number in range(rounds):
            for each in found if number % 2 else found[::-1]:
                seconds, core, losses[each.name] = each.take(steps)
                taken[each.name].append(seconds)
                used[each.name].append(core)
        for each in found:
            each.end()
    rows: dict[str, Any] = {"steps": steps}
    for name, values in taken.items():
        ratios = sorted(ours / theirs for ours, theirs in zip(taken[names[0]], values, strict=True))
        rows[name] = {
            "ms": round(statistics.median(values) * 1e3, 1),
            "fastest ms": round(min(values) * 1e3, 1),
            "core ms": round(statistics.median(used[name]) * 1e3, 1),
            "ratio": round(statistics.median(ratios), 3),
            "lowest": round(ratios[0], 3),
            "highest": round(ratios[-1], 3),
            "loss": round(losses[name], 4),
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compare", nargs="+", default=[*COMPARED], choices=COMPARED)
    parser.add_argument("--without", nargs="*", default=[], help="contestants to leave out")
    parser.add_argument("--nice", type=int, default=0, help="of all contestants; below 0 they come before other work (root)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = {}
    print("| | ms of a step | fastest | of a core | ours / it | lowest | highest | loss |\n|---|---|---|---|---|---|---|---|")
    for what in options.compare:
        rows[what] = compare(tuple(name for name in COMPARED[what] if name not in options.without), options.rounds, options.nice)
        for name, row in rows[what].items():
            if name != "steps":
                print(f"| {what}: {name} | " + " | ".join(str(value) for value in row.values()) + " |", flush=True)
    result = {"ranks": RANKS, "threads": 1, "rounds": options.rounds, "cores": os.cpu_count(), "load": os.getloadavg()}
    text = json.dumps({**result, "torch": torch.__version__, "rows": rows}, indent=1)
    print("load", result["load"])
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
