"""A task's connection to its driver."""

import pytest

from polyrhythm.errors import RunError
from polyrhythm.launchers import driver_link
from polyrhythm.launchers.driver_link import DriverLink
from polyrhythm.launchers.protocol import TaskOrder


def test_a_driver_whose_name_leads_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_link, "_REACHING_SECONDS", 0.1)
    with pytest.raises(RunError, match=r"worker/1 cannot reach its driver at no-such-host.invalid:1 \(.*driver="):
        DriverLink(TaskOrder("no-such-host.invalid", 1, "00" * 32, 2), "worker/1")
