"""The agent of a host starts workers, says how they end, and takes them with it when it is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from polyrhythm.tools.scheduling.agent_link import AgentLink
from polyrhythm.tools.scheduling.news import AgentNews, HostBeat, StartWorker, StopWorker, WorkerEnded


class Heard:
    """All news of an agent so far."""

    def __init__(self, link: AgentLink) -> None:
        self._link = link
        self.all: list[AgentNews] = []

    def until(self, true: Callable[[list[AgentNews]], bool]) -> None:
        """Listen until it is true of all news."""
        deadline = time.monotonic() + 20
        while not true(self.all):
            assert time.monotonic() < deadline, self.all
            self.all += self._link.news()
            time.sleep(0.01)


@pytest.fixture
def link() -> Iterator[AgentLink]:
    """An agent of this machine, with a beat ten times a second."""
    made = AgentLink("here", (), "python", 0.1)
    yield made
    made.close()


def test_beats_come_and_workers_end_with_their_status(link: AgentLink, tmp_path: Path) -> None:
    heard, log = Heard(link), tmp_path / "logs" / "worker.log"
    link.order(StartWorker("good", ["sh", "-c", "echo $WHO"], {"WHO": "me"}, str(log)))
    link.order(StartWorker("bad", ["sh", "-c", "exit 3"], {}, str(tmp_path / "bad.log")))
    heard.until(lambda news: WorkerEnded("good", 0) in news and WorkerEnded("bad", 3) in news)
    heard.until(lambda news: sum(isinstance(each, HostBeat) for each in news) >= 3)
    assert log.read_text() == "me\n"


def test_a_worker_that_is_stopped_is_asked_first(link: AgentLink, tmp_path: Path) -> None:
    heard, log = Heard(link), tmp_path / "log"
    link.order(StartWorker("w", ["sh", "-c", "trap 'echo asked; exit 5' TERM; echo up; sleep 30 & wait"], {}, str(log)))
    deadline = time.monotonic() + 20
    while not (log.exists() and log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    link.order(StopWorker("w"))
    heard.until(lambda news: WorkerEnded("w", 5) in news)
    assert log.read_text() == "up\nasked\n"


def test_workers_end_with_an_agent_that_is_killed(link: AgentLink, tmp_path: Path) -> None:
    log = tmp_path / "log"
    link.order(StartWorker("w", ["sh", "-c", "echo $$; exec sleep 60"], {}, str(log)))
    deadline = time.monotonic() + 20
    while not (log.exists() and log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    worker = int(log.read_text())
    link.process.kill()
    while os.path.exists(f"/proc/{worker}"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not link.is_there
    assert not link.order(StopWorker("w"))
