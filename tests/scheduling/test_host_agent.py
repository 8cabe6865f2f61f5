"""The agent of a host starts workers, says how they end, and takes them with it when it is lost."""

from __future__ import annotations

import os
import sys
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


def _lives(process: int) -> bool:
    """True if it runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def link() -> Iterator[AgentLink]:
    """An agent of this machine, with two beats in a second."""
    made = AgentLink("here", (), "python", 0.5)
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
    while _lives(worker):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    link.process.wait(20)  # it is gone a moment after them
    assert not link.is_there
    assert not link.order(StopWorker("w"))


def test_an_agent_whose_beats_are_heard_stays(link: AgentLink) -> None:
    heard = Heard(link)
    heard.until(lambda news: sum(isinstance(each, HostBeat) for each in news) >= 5)
    assert link.is_there


RELAY = """
setsid sh -c "$1" < orders > news &
cat news &
exec cat > orders
"""


def test_workers_end_behind_a_network_that_is_cut_before_others_take_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relay").write_text(RELAY)
    os.mkfifo("orders")
    os.mkfifo("news")
    held = os.open("orders", os.O_RDWR)  # so that the agent's input does not end when the relay does
    link = AgentLink("far", ("sh", "relay"), sys.executable, 0.4)
    try:
        heard, log = Heard(link), tmp_path / "log"
        heard.until(lambda news: bool(news))
        link.order(StartWorker("w", ["sh", "-c", "echo $$; exec sleep 60"], {}, str(log)))
        deadline = time.monotonic() + 20
        while not (log.exists() and log.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        left = link.give_up()
        given_up, worker = time.monotonic(), int(log.read_text())
        assert _lives(worker)
        while _lives(worker):
            assert time.monotonic() < given_up + left
            time.sleep(0.01)
        assert not link.order(StopWorker("w"))
    finally:
        link.close()
        os.close(held)
