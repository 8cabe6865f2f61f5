"""Sums charged in closed form are those of messages, and take as long on an even network."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import polyrhythm as pr
from polyrhythm.core.simulator.collectives import ClosedForm


@pytest.mark.parametrize("ranks", [3, 5, 8])
@pytest.mark.parametrize("how", [dist.ReduceOp.SUM, dist.ReduceOp.AVG])
def test_a_sum_in_closed_form_has_the_values_time_and_bytes_of_messages(ranks: int, how: dist.ReduceOp.RedOpType) -> None:
    sums: list[torch.Tensor] = []

    def main() -> None:
        dist.init_process_group("gloo")
        for step in range(3):
            value = torch.arange(240_000.0) + dist.get_rank() + step
            dist.all_reduce(value, how)
        sums.append(value)

    messages = pr.simulate(main, ranks=ranks)
    closed = pr.simulate(main, ranks=ranks, on=pr.Simulator(collectives=ClosedForm()))
    assert all(torch.allclose(each, sums[0], rtol=1e-6) for each in sums)
    assert closed.summary.virtual_seconds == pytest.approx(messages.summary.virtual_seconds, rel=0.01)
    assert closed.summary.bytes_sent == pytest.approx(messages.summary.bytes_sent, rel=0.01)
