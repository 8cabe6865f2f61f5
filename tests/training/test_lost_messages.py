"""Where messages are lost or lines stay cut, the end of the run names the fault first, and blames nobody's training function."""

from __future__ import annotations

import math

import pytest

from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import DeadlockError, RunError
from polyrhythm.hardware.faults import Disconnect, Drop, Fault
from polyrhythm.systems import SYSTEMS as CATALOGUE
from polyrhythm.systems import resolve

from .scenes import sgd, trains

QUICK = {"allreduce", "ssp", "gossipgrad", "byteps", "dogwild", "adpsgd"}
SYSTEMS = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in CATALOGUE if name != "single"]


def ends(system: str, fault: Fault) -> str:
    """What the run with the fault raises; empty where it survives it."""
    try:
        run(trains(sgd, epochs=2), workers=3, strategy=resolve(system), on=Simulator(network="slow", faults=(fault,)), seed=3)
    except RunError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("at", [0.0, 0.06])
def test_a_lost_message_is_reported_before_who_waits_for_it(system: str, at: float) -> None:
    text = ends(system, Drop(0.3, at=at))
    first, _, _ = text.partition(" s: " if text.startswith("Deadlock") else "; then")
    assert not text or "a message was lost, and nobody sends it again: " in first, text
    assert "the same number of steps" not in text


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_line_that_stays_cut_is_reported_before_who_waits(system: str) -> None:
    text = ends(system, Disconnect("host/0", "host/1", at=0.03, duration=math.inf))
    assert not text or "because host/0 has been cut off from host/1 since 0.03 s: " in text, text


def test_servers_that_wait_for_anyone_come_last() -> None:
    with pytest.raises(DeadlockError, match=r"worker/0 waits for .* from server/0; .*server/0 .*waits for 'ask' from anyone"):
        run(trains(sgd), workers=2, strategy="mxnet", on=Simulator(network="slow", faults=(Drop(1.0, at=0.06),)))
