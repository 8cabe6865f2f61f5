"""The machines on which a small model trains as the large one would: its steps take as long, and its messages too.

How far asynchronous workers are behind one another depends on what computing and sending take. So a proxy's steps are charged with the
operations of the true model, and links are as much slower as its messages are smaller.
"""

from __future__ import annotations

from dataclasses import replace

from polyrhythm.tools.measuring.timing import charging
from polyrhythm.tools.planner.circumstances import with_links
from polyrhythm.tools.planner.proxy.counted import CountedModel
from polyrhythm.tools.planner.scenario import Scenario


def matched(scenario: Scenario, true: CountedModel, parameters: int) -> Scenario:
    """The scenario for a proxy of so many parameters."""
    part = parameters / true.parameters
    network = replace(with_links(scenario.network, bandwidth=part), name=scenario.network.name)
    return scenario.elsewhere(network=network, devices=charging(scenario.devices, true.shape.flops))
