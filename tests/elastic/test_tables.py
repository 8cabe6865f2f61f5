"""Tables of a crew that changes: each increment whose clock has ended counts once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import polyrhythm as pr
from polyrhythm.hardware.faults import Crash, Join, Leave

CLOCKS, ROWS = 24, 6
SCHEDULES = {
    "a worker is lost": (Crash("worker/2", at=0.004),),
    "the first is lost": (Crash("worker/0", at=0.0041),),
    "two are lost": (Crash("worker/1", at=0.003), Crash("worker/0", at=0.0047)),
    "one leaves and another joins": (Leave("worker/1", at=0.003), Join(at=0.006)),
    "the first leaves": (Leave("worker/0", at=0.003),),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("system", ["ssp", "softsync", "downpour"])
def test_each_increment_whose_clock_has_ended_counts_once(system: str, schedule: str) -> None:
    ended: dict[str, int] = {}
    names: list[str] = []

    def train(worker: pr.Worker) -> None:
        name = worker._context.port.name
        place = names.index(name) if name in names else len(names)
        if place == len(names):
            names.append(name)
        table = worker.table("counts", rows=ROWS, columns=8, row=pr.tables.DenseRows(torch.int64))
        every = torch.arange(ROWS)
        for _ in worker.range(CLOCKS):
            table.get(every)
            values = torch.zeros(ROWS, 8, dtype=torch.int64)
            values[:, place] = 1
            table.inc(every, values)
            table.clock()
            ended[name] = ended.get(name, 0) + 1
        worker.report(done=1.0)

    crew = pr.Crew(1, 3)
    run = pr.run(train, workers=crew, strategy=system, on=pr.Simulator(network="lan", faults=SCHEDULES[schedule]))
    counted: Any = run.weights["counts"]
    assert (counted == counted[0]).all()  # an increment counts in all rows, or in none
    for place, name in enumerate(names):
        lost = name in run.summary.lost
        assert ended[name] <= counted[0, place] <= ended[name] + lost, (name, ended, counted[0].tolist())
