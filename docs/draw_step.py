"""ShareDraws docs/step.svg, the picture of docs/architecture.md: the rooms that one `optimizer.step()` enters, in order, in both runtimes.

    python docs/draw_step.py [SYSTEM]

A profiler follows worker 0's tenth step of a small model. In real processes it sees the thread of the training function alone; in
the simulator, which runs all actors in one thread, it sees the other workers and servers too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import altair as alt
import torch
from torch.nn import functional as F

import polyrhythm as pr

ROOT = str(Path(pr.__file__).parent) + os.sep
STEP = 10
ROOMS = (
    *("core/training", "core/strategy", "core/weights", "core/protocols", "core/collectives"),
    *("catalogue", "core/simulator", "core/processes", "core/shared_memory", "core/kernel", "core"),
)
"""From the user's call down to the kernel. `catalogue` are the packages of pieces."""


def room(file: str) -> str:
    """The room of a file of the package."""
    first, _, rest = file.removeprefix(ROOT).partition(os.sep)
    if first != "core":
        return "catalogue"
    return f"core/{rest.partition(os.sep)[0]}" if os.sep in rest else "core"


class Followed:
    """A training function that writes the rooms of worker 0's step to a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, worker: pr.Worker) -> None:
        torch.manual_seed(0)
        model: Any = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        inputs, labels = torch.randn(400, 8), torch.randint(0, 4, (400,))
        entered: list[str] = []

        def seen(frame: Any, event: str, _: Any) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(ROOT):
                entered.append(room(frame.f_code.co_filename))

        for number, (x, y) in enumerate(worker.batches((inputs, labels), batch_size=8), 1):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            sys.setprofile(seen if number == STEP and worker.rank == 0 else None)
            optimizer.step()
            sys.setprofile(None)
        if worker.rank == 0:
            self.file.write_text(json.dumps(entered))


def entered(system: str, on: Any) -> list[str]:
    """The rooms that the step enters, call by call."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rooms.json"
        pr.run(Followed(file), workers=2, strategy=system, on=on, seed=1)
        rooms: list[str] = json.loads(file.read_text())
    return rooms


def chart(system: str) -> alt.HConcatChart:
    """Two panels: time goes right by calls, depth goes down by rooms."""
    panels = []
    for title, on in (
        ("real processes: the worker's own thread", pr.Processes()),
        ("simulator: all actors, one thread", pr.Simulator(network="lan")),
    ):
        calls = entered(system, on)
        rows = [{"call": place, "room": name} for place, name in enumerate(calls)]
        base = alt.Chart(alt.Data(values=rows), title=f"{title} ({len(calls)} calls)", width=430, height=230)
        x = alt.X("call:Q", title="calls of functions of the package, in order")
        y = alt.Y("room:N", sort=list(ROOMS), title=None)
        ticks = base.mark_tick(thickness=1.5, height=14).encode(x=x, y=y, color=alt.Color("room:N", legend=None, sort=list(ROOMS)))
        panels.append(ticks)
    return alt.hconcat(*panels, title=f"One optimizer.step() of {system}")


if __name__ == "__main__":
    chart(sys.argv[1] if len(sys.argv) > 1 else "ssp").save(Path(__file__).parent / "step.svg")
