"""The machines of a candidate with the seconds of its steps in advance, so that nothing need be counted while it trains."""

from __future__ import annotations

from polyrhythm.core.protocols.deal_rules import apportioned
from polyrhythm.tools.measuring.timing import charging, charging_shares
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.scenario import Scenario


def charged_for(scenario: Scenario, candidate: Candidate, flops: float, batch: int) -> Scenario:
    """Its machines, each step of which takes what `flops` operations take; by its batch of all, where batches are by speed."""
    here = scenario.among(candidate)
    if not (shares := candidate.machines.shares):
        return here.elsewhere(devices=charging(here.devices, flops))
    return here.elsewhere(devices=charging_shares(here.devices, flops, apportioned(candidate.workers * batch, shares)))
