"""The scheduler's side of a host: the agent's process, orders to it, and what it has said."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from shlex import join

import msgspec

from polyrhythm.core.processes.system.prctl import die_with_parent
from polyrhythm.tools.scheduling.news import AgentNews, HostBeat, StartWorker, StopWorker, WorkerEnded

_AGENT = ("-m", "polyrhythm.tools.scheduling.host_agent")


class AgentLink:
    """The agent of the host `name`, started by `reach`, words to which a line for its shell is added, or here where there are none."""

    def __init__(self, name: str, reach: Sequence[str], python: str, interval: float) -> None:
        self.name = name
        command = [python if reach else sys.executable, *_AGENT, f"{interval:g}"]
        words = [*reach, join(command)] if reach else command
        bound = partial(die_with_parent, os.getpid())
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=bound, start_new_session=True)
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

    def order(self, order: StartWorker | StopWorker) -> bool:
        """Give an order; False if the agent is not there."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(msgspec.json.encode(order) + b"\n")
            self.process.stdin.flush()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """End the agent and its workers."""
        assert self.process.stdin is not None
        with suppress(OSError):
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
            self._news.append(decoder.decode(line))
