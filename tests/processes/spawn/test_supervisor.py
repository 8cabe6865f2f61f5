"""Servers beside a joined process; the runs in test_join start them for real."""

import os
from typing import Any

import pytest

from polyrhythm.errors import RunError
from polyrhythm.processes.spawn import fork_client
from polyrhythm.processes.spawn.supervisor import Supervisor
from polyrhythm.processes.transport.loop import Loop


def test_where_no_child_can_be_started_the_parcel_is_closed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise RunError("no process")

    monkeypatch.setattr(fork_client, "borrow", fail)
    loop = Loop()
    supervisor = Supervisor(loop, lambda event: None, lambda problem: None)
    parcel = os.open("/dev/null", os.O_RDONLY)
    with pytest.raises(RunError, match="no process"):
        supervisor.start(["server/0"], parcel)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(parcel)
    supervisor.close()
    loop.close()
