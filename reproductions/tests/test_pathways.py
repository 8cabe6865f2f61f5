"""Dispatch changes when operations are done and not whether; gangs need one order."""

from __future__ import annotations

import pytest

from polyrhythm.hardware.network import Network
from polyrhythm_reproductions.pathways import (
    DispatchChain,
    IslandOrder,
    NoOrder,
    ParallelDispatch,
    SequentialDispatch,
    WithoutController,
    chain_seconds,
    race_deadlocks,
)

NETWORK = Network.uniform("10 Gbit/s, 50 us", "10 Gbit/s", "50 us")


def test_a_dispatch_one_after_another_pays_the_way_and_the_host_for_each_operation() -> None:
    chain = DispatchChain(operations=12, hosts=4, seconds=0.0, preparing=1e-3)
    assert chain_seconds(chain, SequentialDispatch(), NETWORK) == pytest.approx(12 * (1e-3 + 100e-6), rel=0.1)
    assert chain_seconds(chain, ParallelDispatch(), NETWORK) == pytest.approx(3e-3, rel=0.2)


def test_nothing_is_faster_than_no_controller_and_the_chain_itself() -> None:
    chain = DispatchChain(operations=6, hosts=3, seconds=1e-2, preparing=1e-4)
    alone = chain_seconds(chain, WithoutController(), NETWORK)
    for dispatch in (ParallelDispatch(), SequentialDispatch()):
        assert 6e-2 < alone <= chain_seconds(chain, dispatch, NETWORK)


def test_races_end_with_an_order_and_some_do_not_without() -> None:
    assert not any(race_deadlocks(IslandOrder(), NETWORK, seed) for seed in range(20))
    assert any(race_deadlocks(NoOrder(), NETWORK, seed) for seed in range(20))
