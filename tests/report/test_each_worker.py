"""What each worker did is in a table: its rate, and for which parts of the time it computed and waited."""

from __future__ import annotations

import pytest
import torch
from toy import SLOW, Toy

from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.tools.report.each_worker import each_worker, totals
from polyrhythm.tools.report.page import page
from polyrhythm.tools.report.series import series_of
from polyrhythm.tools.report.shares import shares

TOY = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.02), epochs=4)
UNEVEN = Simulator(network=SLOW, devices=Fleet((Device("slow", 2e5),), (Mixed((1.0, 1.0, 0.25)),)))


def test_the_slow_one_waits_least_and_where_no_worker_waits_the_fast_ones_train_more() -> None:
    lockstep, free = (run(TOY, workers=3, strategy=name, on=UNEVEN).outcome for name in ("allreduce", "strom"))
    found = totals(lockstep)
    assert list(found) == ["worker/0", "worker/1", "worker/2"]
    assert min(found, key=lambda name: found[name].waited) == "worker/2"
    assert max(found, key=lambda name: found[name].computed) == "worker/2"
    assert sum(worker.samples for worker in found.values()) == lockstep.summary.samples
    whole = sum(worker.last for worker in found.values())
    parts = sum(worker.computed for worker in found.values()) / whole, sum(worker.waited for worker in found.values()) / whole
    assert parts == pytest.approx(shares(lockstep))
    assert sum(worker.waited for worker in totals(free).values()) < sum(worker.waited for worker in found.values())


def test_the_page_has_a_row_for_each_of_the_first_workers_of_each_system() -> None:
    outcomes = [run(TOY, workers=3, strategy=name, on=UNEVEN).outcome for name in ("allreduce", "strom")]
    outcomes.append(run(TOY, workers=1, strategy="single", on=UNEVEN).outcome)
    drawn = page(outcomes, "uneven")
    assert drawn.count('<th scope="row">worker/2</th>') == 2
    tables = each_worker(series_of(outcomes), most=2)
    assert [table.series.label for table in tables] == ["allreduce", "strom"]
    assert [(len(table.rows), table.remark) for table in tables] == [(2, "The other 1 of 3 workers are not shown.")] * 2


def test_who_ended_early_did_not_wait_for_the_others() -> None:
    free = run(TOY, workers=3, strategy="hogwild", on=UNEVEN).outcome
    found = totals(free)
    fast, slow = found["worker/0"], found["worker/2"]
    assert fast.steps == slow.steps
    assert 3.5 * fast.last < slow.last
    for worker in (fast, slow):
        assert worker.computed + worker.waited == pytest.approx(worker.last)
    (table,) = each_worker(series_of([free]), most=3)
    assert [row[1] for row in table.rows] == [f"{worker.computed / worker.last:.0%}" for worker in found.values()]
