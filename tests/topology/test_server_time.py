"""The time of a round with sharded servers is the closed form's."""

from __future__ import annotations

import pytest
from collectives import BANDWIDTH, LATENCY, NETWORK

from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Profile
from polyrhythm.tools.measuring.replay import Replay, StepShape
from polyrhythm.topology import Server

SHAPE = StepShape(Layout(("w",), ((1000, 1000),)), 0.0, 1)
NBYTES = 4_000_000


def seconds(workers: int, shards: int, steps: int, merging: float = 0.0) -> float:
    """Virtual seconds of a run without computing, but for `merging` each contribution."""
    on = Simulator(network=NETWORK, devices=Profile("nothing", (0.0,), merging))
    return run(Replay(SHAPE, steps), workers=workers, strategy=Strategy(topology=Server(shards)), on=on).summary.virtual_seconds or 0.0


@pytest.mark.parametrize(
    ("workers", "shards"), [(2, 1), (4, 2), (8, 3), (3, 4), (5, 5), (16, 4), pytest.param(64, 8, marks=pytest.mark.long)]
)
def test_a_round_takes_the_time_of_the_busiest_line_twice(workers: int, shards: int) -> None:
    """2 (a + max(M / B, P M / (S B))): each way, either a worker's line or a server's is the narrowest (Li et al., 2014)."""
    expected = 2 * (LATENCY + max(1.0, workers / shards) * NBYTES / BANDWIDTH)
    assert seconds(workers, shards, 3) - seconds(workers, shards, 2) == pytest.approx(expected, rel=0.01)


def test_a_server_merges_one_contribution_after_the_other() -> None:
    merging = 0.5
    free, busy = (seconds(4, 1, 3, each) - seconds(4, 1, 2, each) for each in (0.0, merging))
    assert busy - free == pytest.approx(4 * merging, rel=0.01)
