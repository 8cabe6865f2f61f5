"""Means over the lines of a grid: exact when the grid is full, and as good as can be when someone is lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from endpoints import context_of, worker_end
from schedules import Schedule
from torch import Tensor
from toy import SLOW, Toy, trained, weights

from polyrhythm.codec import Cast, Identity
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.losses import GONE
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import Crash
from polyrhythm.local_rules import TrackedGradients
from polyrhythm.merge import Mean
from polyrhythm.topology import AllReduce, Moshpit
from polyrhythm.topology.graphs.grid import line, sides

LAYOUT = Layout(("w",), ((7,),))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("workers", [1, 2, 5, 8, 12, 27])
def test_lines_divide_the_workers_and_two_meet_at_most_once_on_a_round_of_all_axes(workers: int, dimensions: int) -> None:
    shape = sides(workers, dimensions)
    assert math.prod(shape) >= workers
    for axis in range(dimensions):
        lines = {line(rank, axis, workers, dimensions) for rank in range(workers)}
        assert sorted(rank for each in lines for rank in each) == list(range(workers))
        assert all(len(each) <= shape[axis] for each in lines)
    for rank in range(workers):
        met = [other for axis in range(dimensions) for other in line(rank, axis, workers, dimensions) if other != rank]
        assert len(met) == len(set(met))


def averaged(workers: int, topology: Moshpit, exchanges: int, codec: Codec, lost: int = 0) -> tuple[Tensor, list[Tensor]]:
    """What workers began with, and what each has after some exchanges. The last ones are `lost`, as the others learn at any time."""
    strategy = Strategy(consistency=LocalSteps(1), topology=topology, codec=codec)
    schedule, given = Schedule(5), torch.from_numpy(np.random.default_rng(2).integers(-64, 65, (workers, LAYOUT.numel))).double()
    states = [ModelState(torch.zeros(LAYOUT.numel, dtype=torch.float64), LAYOUT, Mean(), context_of(workers), None) for _ in given]

    async def live(rank: int, channel: Any, state: ModelState) -> None:
        (await channel.establish(InitialState(state, ""))).apply(state)
        state.adopt(given[rank])
        for clock in range(1, exchanges + 1):
            (await channel.exchange(state.weights, clock, (0.1,))).apply(state)

    for rank, state in enumerate(states[: workers - lost]):
        port = schedule.port(worker(rank))
        channel = strategy.topology.channel(strategy.agreement, worker_end(port, workers, 0, 5))
        for gone in range(workers - lost, workers):
            schedule.under_way[f"runtime/{gone}", port.name].append(Message(GONE, text=worker(gone)))
        schedule.start(port.name, live(rank, channel, state))
    assert schedule.run()
    schedule.close()
    return given, [state.weights for state in states[: workers - lost]]


@pytest.mark.parametrize(("workers", "dimensions"), [(4, 1), (9, 2), (6, 2), (8, 3)])
def test_a_full_grid_has_the_exact_mean_after_as_many_rounds_as_it_has_dimensions(workers: int, dimensions: int) -> None:
    for topology, exchanges in ((Moshpit(dimensions), dimensions), (Moshpit(dimensions, rounds=dimensions), 1)):
        given, have = averaged(workers, topology, exchanges, Identity())
        torch.testing.assert_close(torch.stack(have), given.mean(0).expand(workers, -1), rtol=0, atol=1e-12)
        assert all(torch.equal(each, have[0]) for each in have)


@pytest.mark.parametrize("workers", [5, 7])
def test_the_mean_stays_where_cells_are_empty_and_workers_come_together(workers: int) -> None:
    given, have = averaged(workers, Moshpit(), 3, Identity())
    torch.testing.assert_close(torch.stack(have).mean(0), given.mean(0))
    given, have = averaged(workers, Moshpit(), 40, Identity())
    torch.testing.assert_close(torch.stack(have), given.mean(0).expand(workers, -1), rtol=0, atol=1e-4)


@pytest.mark.parametrize("lost", [1, 3])
def test_those_who_are_left_go_on_and_come_together(lost: int) -> None:
    _, have = averaged(9, Moshpit(), 30, Identity(), lost)
    assert torch.stack(have).std(0).max() < 0.5
    assert averaged(9, Moshpit(), 2, Cast(torch.bfloat16), lost)[1][0].isfinite().all()


def test_one_line_for_all_is_averaging_over_all() -> None:
    everyone = Strategy(consistency=LocalSteps(2), topology=AllReduce())
    alone = Strategy(consistency=LocalSteps(2), topology=Moshpit(dimensions=1))
    torch.testing.assert_close(weights(Toy(), 4, alone), weights(Toy(), 4, everyone), rtol=0, atol=1e-5)


@pytest.mark.parametrize("local", [None, TrackedGradients()], ids=["plain", "tracked"])
def test_a_run_goes_on_without_a_worker_that_crashes(local: TrackedGradients | None) -> None:
    pieces = {} if local is None else {"local": local}
    strategy = Strategy(consistency=LocalSteps(1), topology=Moshpit(), **pieces)  # type: ignore[arg-type]
    whole = trained(Toy(), 4, strategy, Simulator(network=SLOW))
    broken = trained(Toy(), 4, strategy, Simulator(network=SLOW, faults=(Crash("worker/3", (whole.summary.virtual_seconds or 0) / 3),)))
    assert all(torch.isfinite(each).all() for each in broken.weights.values())
    assert broken.summary.bytes_sent < whole.summary.bytes_sent


@pytest.mark.parametrize("settings", [{"dimensions": 0}, {"rounds": 0}, {"dimensions": True}])
def test_what_is_no_grid_is_refused(settings: dict[str, int]) -> None:
    with pytest.raises(CompositionError, match="give whole numbers"):
        Moshpit(**settings)
