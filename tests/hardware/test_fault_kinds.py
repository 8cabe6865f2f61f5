"""Every kind of fault: it can be typed, it is public, and both runtimes have something to do for it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

import polyrhythm as pr
from polyrhythm.core.processes.spawn.process_faults import ProcessFaults
from polyrhythm.core.simulator.fault_injection import FaultInjection
from polyrhythm.hardware.faults import SOURCES, Fault
from polyrhythm.tools.cli.faults import KINDS


@pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.__name__)
def test_every_kind_is_public_and_can_be_typed(kind: Any) -> None:
    assert getattr(pr.hardware, kind.__name__) is kind
    assert kind in KINDS.values()


def test_both_runtimes_carry_out_every_fault() -> None:
    nothing: Any = None
    virtual = FaultInjection(nothing, nothing, 1, nothing, 0, 0.0)
    real = ProcessFaults([], nothing, nothing, nothing, nothing)
    for kind in get_args(Fault):
        assert kind in virtual._handlers
        assert kind in real._handlers
