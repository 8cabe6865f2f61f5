"""Laws of what a program communicated: bytes and counts by mesh axis and line, and the time that it waited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import polyrhythm as pr
from polyrhythm.core.kernel.events import Communicated
from polyrhythm.tools.report.communication import by_axis, by_line, communication

from .programs import group, sharded_tensor_parallel

N = 50_000


def one_of_each() -> None:
    with group() as (rank, ranks):
        value, part = torch.ones(N), torch.ones(N // ranks)
        dist.all_reduce(value)
        dist.reduce_scatter_tensor(part, value)
        dist.all_gather_into_tensor(value, part)
        dist.broadcast(value, 0)
        dist.all_to_all_single(value, value.clone())
        if rank == 0:
            dist.send(value, 1)
        elif rank == 1:
            dist.recv(value, 0)


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_bytes_are_those_of_the_formulas() -> None:
    ranks = 4
    found = communication(pr.simulate(one_of_each, ranks=ranks).outcome, by_axis)
    payload, whole = 4 * N, {what: one for (_, what), one in found.items()}
    expected = {"all_reduce": 2 * (ranks - 1), "reduce_scatter": 2 * (ranks - 1), "all_gather": ranks - 1}
    expected |= {"broadcast": ranks - 1, "all_to_all": ranks - 1, "send": 1, "receive": 0}
    for what, times in expected.items():
        assert whole[what].nbytes == pytest.approx(times * payload, rel=0.01, abs=100), what
        assert whole[what].calls == (1 if what in ("send", "receive") else ranks)


def test_the_sum_of_all_collectives_is_what_was_sent_and_nobody_waits_longer_than_it_takes() -> None:
    run = pr.simulate(sharded_tensor_parallel, ranks=4, on=pr.Simulator(network="slow"))
    events = [event for event in run.outcome.events if isinstance(event, Communicated)]
    assert sum(event.nbytes for event in events) == run.summary.bytes_sent
    assert all(0 <= event.waited <= event.seconds + 1e-12 for event in events)
    assert {event.axis for event in events} >= {"data", "tensor"}
    assert all(event.where.startswith(("programs.py:", "the backward pass")) for event in events)


def test_an_exchange_that_is_computed_over_is_not_waited_for() -> None:
    def overlapped() -> None:
        with group():
            work = dist.all_reduce(torch.ones(1000), async_op=True)
            x = torch.ones(2000, 2000)
            x @ x  # two thirds of a second of virtual time
            work.wait()

    [event] = {event.waited for event in pr.simulate(overlapped, ranks=2).outcome.events if isinstance(event, Communicated)}
    assert event == 0


def test_records_traces_and_pages_show_it(tmp_path: Path) -> None:
    run = pr.simulate(sharded_tensor_parallel, ranks=4, directory=tmp_path / "record", timeline=True)
    records = json.loads(run.trace(tmp_path / "trace.json").read_text())["traceEvents"]
    names = {record["args"]["name"] for record in records if record["ph"] == "M" and "name" in record["args"]}
    assert any(name.endswith("collectives of worker/0") for name in names)
    assert {"data", "tensor"} <= names
    page = run.report(tmp_path / "page.html").read_text()
    assert "What was communicated" in page
    assert all(where in page for *_, where in communication(run.outcome, by_line))
