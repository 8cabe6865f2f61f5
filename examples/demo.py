"""The main job: which way of training together suits a small network, on this machine and on a slow network?

Six systems train `digits-cnn` on 2 real processes, then the same six on 16 virtual workers joined by 50 Mbit/s links of 20 ms.
Prints both tables, says what they mean, and writes runs/demo/report.html.
"""

from __future__ import annotations

import time
from pathlib import Path

import polyrhythm as pr
from polyrhythm.report.metrics import parse_target
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.page import write
from polyrhythm.report.table import text

SYSTEMS = ("single", "allreduce", "ssp", "sparknet", "easgd", "gossipgrad")
TARGET = parse_target("accuracy=0.93")
OUT = Path("runs/demo")


def main() -> None:
    """Run all, print all, write the page."""
    train = pr.load_workload("digits-cnn", {"epochs": "24"})
    outcomes: list[Outcome] = []
    began = time.monotonic()
    for title, workers, runtime in (
        ("2 real processes on this machine", 2, pr.Processes()),
        ("16 virtual workers, every link 50 Mbit/s and 20 ms", 16, pr.Simulator(network="slow")),
    ):
        print(f"\n{title}\n", flush=True)
        these = [
            pr.run(train, workers=workers, strategy=system, on=runtime, directory=OUT / runtime.kind / system).outcome for system in SYSTEMS
        ]
        print(text(these, TARGET), flush=True)
        outcomes += these
    page = write(outcomes, OUT / "report.html", "Six ways to train digits-cnn together", TARGET, "make demo")
    print(f"\nThe report is in {page}. All this took {time.monotonic() - began:.0f} seconds.")


if __name__ == "__main__":
    main()
