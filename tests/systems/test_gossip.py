"""The presets of gossip, and of elastic averaging, in other words."""

from __future__ import annotations

import pytest

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.merge import Elastic
from polyrhythm.systems import find
from polyrhythm.topology import PullWeights, PushWeights, Server


def test_deepspark_is_easgd_with_one_driver() -> None:
    assert find("deepspark", period=4, moving_rate=0.5) == find("easgd", period=4, moving_rate=0.5, servers=1)
    strategy = find("deepspark")
    assert (strategy.consistency, strategy.topology, strategy.merge) == (LocalSteps(10, Asynchronous()), Server(1), Elastic(0.9))


@pytest.mark.parametrize(("pull", "topology"), [(False, PushWeights()), (True, PullWeights())])
def test_gossiping_pushes_or_pulls(pull: bool, topology: object) -> None:
    assert find("gossiping-sgd", pull=pull).topology == topology
