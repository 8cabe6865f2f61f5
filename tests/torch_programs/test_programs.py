"""Laws of programs of torch.distributed in virtual time: their values are those of one process, and of gloo's processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.events import Stepped

from .programs import CASES, STEPS, data_parallel, one_process, sharded


def simulated(main: Callable[[], float], ranks: int, **how: Any) -> tuple[pr.Run, list[float]]:
    losses: dict[int, float] = {}

    def collect() -> None:
        loss = main()
        losses[int(__import__("os").environ["RANK"])] = loss

    run = pr.simulate(collect, ranks=ranks, on=pr.Simulator(**how))
    return run, [losses[rank] for rank in range(ranks)]


@pytest.mark.parametrize(("main", "ranks"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_the_loss_is_that_of_one_process(main: Callable[[], float], ranks: int) -> None:
    run, losses = simulated(main, ranks, network="lan")
    assert losses == pytest.approx([one_process()] * ranks, rel=1e-5)
    assert run.summary.steps == STEPS
    assert len([event for event in run.outcome.events if isinstance(event, Stepped)]) in range(STEPS, ranks * STEPS + 1)


@pytest.mark.parametrize("main", [data_parallel, sharded])
def test_a_run_repeats_to_the_byte_and_the_network_changes_its_time_alone(main: Callable[[], float]) -> None:
    once, again, slow = (simulated(main, 3, network=network) for network in ("lan", "lan", "slow"))
    assert msgspec.json.encode(once[0].outcome.events) == msgspec.json.encode(again[0].outcome.events)
    assert once[1] == again[1] == slow[1]
    assert slow[0].summary.virtual_seconds > 10 * once[0].summary.virtual_seconds
    assert slow[0].summary.bytes_sent == once[0].summary.bytes_sent


def test_nothing_is_left_in_the_place_of_torch() -> None:
    before = (torch.distributed.distributed_c10d._world, torch.distributed.TCPStore, __import__("time").time)
    simulated(data_parallel, 2)
    assert before == (torch.distributed.distributed_c10d._world, torch.distributed.TCPStore, __import__("time").time)
    assert not torch.distributed.is_initialized()


@pytest.mark.filterwarnings("ignore:`torch.jit.*deprecated:DeprecationWarning", "ignore:Using `torch.compile\\(module\\)`:UserWarning")
def test_code_that_is_to_be_compiled_is_run_as_it_is() -> None:
    def main() -> None:
        @torch.compile(fullgraph=True)
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        module = torch.nn.Linear(2, 2)
        module.compile(fullgraph=True)
        function = torch.compile(torch.sin, fullgraph=True)
        x = torch.ones(2)
        assert doubled(x).tolist() == [2.0, 2.0]
        assert function(x).equal(x.sin())
        assert module(x).equal(torch.nn.functional.linear(x, module.weight, module.bias))

    pr.simulate(main, ranks=2)
