"""The scheduler's side of a host: the agent's process, orders to it, and what it has said."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from shlex import join

import msgspec

from polyrhythm.core.processes.system.prctl import die_with_parent
from polyrhythm.tools.scheduling.news import LEASE_INTERVALS, AgentNews, AgentOrder, BeatHeard, HostBeat, WorkerEnded

_AGENT = ("-m", "polyrhythm.tools.scheduling.host_agent")
_ENDING_SECONDS = 1.0
"""The time that an agent may take to end its workers."""


class AgentLink:
    """The agent of the host `name`, started by `reach`, words to which a line for its shell is added, or here where there are none.

    It is told of each beat that is heard, by a thread that no decision holds up, and ends when it has not been told for a while.
    """

    def __init__(self, name: str, reach: Sequence[str], python: str, interval: float) -> None:
        self.name = name
        command = [python if reach else sys.executable, *_AGENT, f"{interval:g}"]
        words = [*reach, join(command)] if reach else command
        bound = partial(die_with_parent, os.getpid())
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=bound, start_new_session=True)
        self._lease = LEASE_INTERVALS * interval + _ENDING_SECONDS if reach else 0.0
        self._heard: float | None = None
        self._is_given_up = False
        self._lock = threading.Lock()
        self._news: deque[AgentNews] = deque()
        self._reader = threading.Thread(target=self._read, name=f"polyrhythm host {name}", daemon=True)
        self._reader.start()

    @property
    def is_there(self) -> bool:
        """False when the agent, or the connection with it, has ended."""
        return self.process.poll() is None

    @property
    def has_news(self) -> bool:
        """True if it has said something since the last call of `news`."""
        return bool(self._news)

    def news(self) -> list[AgentNews]:
        """What it has said since the last call."""
        return [self._news.popleft() for _ in range(len(self._news))]

    @property
    def was_heard(self) -> bool:
        """True if it has ever given a beat."""
        return self._heard is not None

    def order(self, order: AgentOrder) -> bool:
        """Give an order; False if the agent is not there."""
        with self._lock:
            return self._told(order)

    def give_up(self) -> float:
        """End the connection, and the agent if it can be reached; the seconds after which its workers have ended in any case.

        An agent here ends at once, with its workers. Another may be behind a network that is cut: it ends by its own clock.
        """
        self.process.kill()
        with self._lock:
            self._is_given_up = True
        return 0.0 if self._heard is None else max(0.0, self._heard + self._lease - time.monotonic())

    def close(self) -> None:
        """End the agent and its workers."""
        assert self.process.stdin is not None
        with self._lock, suppress(OSError):
            self._is_given_up = True
            self.process.stdin.close()
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        decoder = msgspec.json.Decoder(HostBeat | WorkerEnded)
        for line in self.process.stdout:
            news: AgentNews = decoder.decode(line)
            match news:
                case HostBeat(_, sent):
                    self._hear(sent)
                case WorkerEnded():
                    pass
            self._news.append(news)

    def _hear(self, sent: float) -> None:
        """Tell the agent that its beat is heard. It was sent before this moment, so that its time is up before ours."""
        with self._lock:
            if not self._is_given_up:
                self._heard = time.monotonic()
                self._told(BeatHeard(sent))

    def _told(self, order: AgentOrder) -> bool:
        assert self.process.stdin is not None
        if self._is_given_up:
            return False
        try:
            self.process.stdin.write(msgspec.json.encode(order) + b"\n")
            self.process.stdin.flush()
        except OSError:
            return False
        return True
