"""What the data axes of a layout send in a step: of the steps that come again, and not of a warm-up."""

from __future__ import annotations

import pytest

from polyrhythm.core.kernel.mesh import MeshShape
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.systems import find
from polyrhythm.tools.layouts.exchange_trial import ExchangedShape, traffic


@pytest.mark.parametrize("system", ["post-local-sgd", "dgc", "onebit-adam"])
def test_traffic_is_that_of_the_steps_after_a_warm_up(system: str) -> None:
    shapes = ((ExchangedShape((32, 64)),),) * 2
    found = traffic(find(system), MeshShape((("data", 2),)), shapes, (0.0, 0.0), Simulator(network=Instant()))
    whole = traffic(find("allreduce"), MeshShape((("data", 2),)), shapes, (0.0, 0.0), Simulator(network=Instant()))
    assert found.nbytes[0] < 0.2 * whole.nbytes[0]
