"""Servers beside a joined process; the runs in test_join start them for real."""

import os
from typing import Any

import pytest

from polyrhythm.errors import RunError
from polyrhythm.processes import nursery
from polyrhythm.processes.loop import Loop
from polyrhythm.processes.wards import Wards


def test_where_no_child_can_be_started_the_parcel_is_closed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise RunError("no process")

    monkeypatch.setattr(nursery, "borrow", fail)
    loop = Loop()
    wards = Wards(loop, lambda event: None, lambda problem: None)
    parcel = os.open("/dev/null", os.O_RDONLY)
    with pytest.raises(RunError, match="no process"):
        wards.start(["server/0"], parcel)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(parcel)
    wards.close()
    loop.close()
