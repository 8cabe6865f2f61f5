"""The pods of a run, as kubectl shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from polyrhythm.launchers.kubectl import Kubectl
from polyrhythm.launchers.manifest import INDEX
from polyrhythm.launchers.pods import PodTasks


class Log:
    """Of a pod that prints nothing."""

    def wait(self, seconds: float | None = None) -> int:
        return 0

    def terminate(self) -> None:
        return None


class Cluster:
    """A cluster that takes everything, and shows nothing by itself."""

    def apply(self, objects: object) -> None:
        return None

    def delete(self, objects: object, wait: bool = False) -> None:
        return None

    def listed(self, *arguments: str) -> list[dict[str, Any]]:
        return []

    def follow(self, pod: str) -> Log:
        return Log()


@pytest.fixture
def tasks() -> Iterator[PodTasks]:
    found = PodTasks(cast(Kubectl, Cluster()), "run", 2, [])
    yield found
    found.close(5.0)


def _failed(name: str, rank: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {INDEX: str(rank)}}, "status": {"phase": "Failed", "reason": "Evicted"}}


def test_a_pod_that_fails_is_lost_once(tasks: PodTasks) -> None:
    for _ in range(2):
        tasks._regard(_failed("run-1-a", 1))
    assert [loss.rank for loss in tasks.losses()] == [1]


def test_a_pod_whose_loss_was_noticed_before_it_was_seen_to_fail_is_not_lost_again(tasks: PodTasks) -> None:
    assert tasks.restart([1]) == [1]
    tasks._regard(_failed("run-1-a", 1))
    assert tasks.losses() == []
    tasks._regard(_failed("run-1-b", 1))
    assert [loss.rank for loss in tasks.losses()] == [1]
    tasks.restart([1])
    tasks._regard(_failed("run-1-c", 1))
    assert [loss.rank for loss in tasks.losses()] == [1]
