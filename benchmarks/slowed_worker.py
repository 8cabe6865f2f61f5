"""One worker of a few is slowed three times by a busy loop: what each worker of a system then does with its time, on real processes.

    python benchmarks/slowed_worker.py --out slowed --json slowed.json    # all; about five minutes; rows that a file has are replaced

Two, three and four workers train `digits-mlp`'s model, on one thread each, once with nobody slowed (`even`) and once with worker 0
slowed. The gradients of a sample take `PACE` seconds at least, for which the training function sleeps, as on a slower device: so few cores
are enough for all. The worker that is slowed then computes for `SLOWNESS - 1` times as long as its gradients took, in a loop that never
sleeps. All stop after as many steps. Rates and shares are those of the report (`polyrhythm.tools.report.each_worker`): a worker's samples
by the time of its last step, and the parts of that time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import polyrhythm as pr
from polyrhythm.tools.report.each_worker import totals
from polyrhythm.tools.report.page import write
from polyrhythm.workloads.digits import digits, measured, wide_mlp

BATCH_SIZE = 16
RATE = 0.01
PACE = 0.010 / BATCH_SIZE
"""Seconds of a sample. A batch's gradients need some 3 ms of a core: of two cores the loop takes one, and three others nine tenths."""
SLOWNESS = 3
STEPS = 150
SYSTEMS = ("allreduce", "ssp", "gaia", "ako", "gossipgrad", "dlion", "adpsgd", "hogwild")


@dataclass(frozen=True, slots=True)
class Train:
    """`digits-mlp`'s model for `steps` steps of each worker; worker `slowed`, if any, takes `SLOWNESS` times as long for each."""

    slowed: int | None
    steps: int = STEPS
    name: str = "digits-mlp"

    def __call__(self, worker: pr.Worker) -> None:
        training, test = digits()
        model = wide_mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
        model, optimizer = worker.attach(model, optimizer)
        worker.evaluate(lambda model: measured(model, test, worker.device))
        while True:
            for x, y in worker.batches(training, batch_size=BATCH_SIZE):
                began = time.perf_counter()
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                time.sleep(max(began + PACE * len(x) - time.perf_counter(), 0.0))
                if worker.rank == self.slowed:
                    until = began + SLOWNESS * (time.perf_counter() - began)
                    while time.perf_counter() < until:
                        pass
                optimizer.step()
                if worker.clock == self.steps:
                    return


@dataclass(frozen=True, slots=True)
class Share:
    """What one worker did: samples a second, and the parts of its time until its last step."""

    rate: float
    computing: float
    waiting: float


def shares(run: pr.Run) -> list[Share]:
    """Of each worker, in the order of their ranks."""
    return [Share(one.samples / one.last, one.computed / one.last, one.waited / one.last) for one in totals(run.outcome).values()]


def measure(system: str, workers: int, slowed: int | None, directory: Path, seed: int) -> tuple[pr.Run, list[Share]]:
    """One run, saved."""
    run = pr.run(Train(slowed), workers=workers, strategy=system, on=pr.Processes(timeout=120.0), seed=seed)
    run.save(directory / f"{system}-{workers}-{'even' if slowed is None else 'slowed'}")
    return run, shares(run)


def row(system: str, workers: int, directory: Path, seed: int) -> tuple[pr.Run, dict[str, Any]]:
    """Nobody slowed, and worker 0."""
    _, even = measure(system, workers, None, directory, seed)
    run, slowed = measure(system, workers, 0, directory, seed)
    return run, {"system": system, "workers": workers, "even": [asdict(one) for one in even], "slowed": [asdict(one) for one in slowed]}


def shown(row: dict[str, Any]) -> str:
    """A row of the table."""
    slow, *others = row["slowed"]
    kept = sum(one["rate"] for one in row["slowed"]) / sum(one["rate"] for one in row["even"])
    rate, idle = (statistics.mean(one[what] for one in others) for what in ("rate", "waiting"))
    cells = [f"{slow['rate']:,.0f}", f"{slow['waiting']:.0%}", f"{rate:,.0f}", f"{idle:.0%}", f"{kept:.2f}"]
    return f"| `{row['system']}` | {row['workers']} | " + " | ".join(cells) + " |"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """In Markdown."""
    title = "| | workers | slowed: samples/s | waiting | each other: samples/s | waiting | all, of nobody slowed |"
    return "\n".join([title, "|---|--:|--:|--:|--:|--:|--:|", *map(shown, rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("slowed"), help="where runs and reports are written")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, choices=pr.systems.SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = json.loads(given.json.read_text())["rows"] if given.json and given.json.exists() else []
    for workers in given.workers:
        outcomes = []
        for system in given.systems:
            run, told = row(system, workers, given.out, given.seed)
            outcomes.append(run.outcome)
            rows = [*(each for each in rows if (each["system"], each["workers"]) != (system, workers)), told]
            print(shown(told), flush=True)
        write(outcomes, given.out / f"report-{workers}.html", f"Worker 0 of {workers} is slowed {SLOWNESS} times")
        if given.json:
            given.json.write_text(json.dumps({"seed": given.seed, "load": os.getloadavg(), "rows": rows}, indent=1) + "\n")
    print("\n" + table(rows))


if __name__ == "__main__":
    main()
