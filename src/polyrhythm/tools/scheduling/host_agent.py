"""The agent of one host: it starts the workers that belong there, says when they end, and gives a beat every so many seconds.

`python -m polyrhythm.tools.scheduling.host_agent SECONDS`, with one JSON object a line on its standard input (orders) and output (news).
When its input ends, or it is killed, its workers end with it: a host whose connection is lost trains nothing that nobody knows of. So do
they when the network is cut and nothing ends: three intervals after the last beat that it knows to be heard, by a clock of its own.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.core.processes.system.prctl import die_with_parent
from polyrhythm.tools.scheduling.gpu_health import broken_gpus
from polyrhythm.tools.scheduling.news import (
    LEASE_INTERVALS,
    AgentNews,
    AgentOrder,
    BeatHeard,
    HostBeat,
    StartWorker,
    StopWorker,
    WorkerEnded,
)

_PATIENCE = 10.0
"""Seconds that a worker which was asked to end has for it."""
_PAUSE = 0.05


class HostAgent:
    """The workers of this host by their names."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._deadlines: dict[str, float] = {}
        self._until = _clock() + LEASE_INTERVALS * interval

    def run(self) -> None:
        """Carry orders out until there are no more."""
        threading.Thread(target=self._end_in_silence, name="polyrhythm lease", daemon=True).start()
        orders = msgspec.json.Decoder(StartWorker | StopWorker | BeatHeard)
        os.set_blocking(sys.stdin.fileno(), False)
        rest, due = b"", 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            while True:
                if selector.select(_PAUSE):
                    read = os.read(sys.stdin.fileno(), 65536)
                    if not read:
                        break
                    *lines, rest = (rest + read).split(b"\n")
                    for line in lines:
                        self._obey(orders.decode(line))
                self._look()
                if time.monotonic() >= due:
                    sent = _clock()
                    _say(HostBeat(broken_gpus(), sent))
                    due = time.monotonic() + self._interval
        for process in self._workers.values():
            process.kill()

    def _end_in_silence(self) -> None:
        """End all when the time is up; a thread, for a GPU that is asked for its health may never answer."""
        while _clock() < self._until:
            time.sleep(_PAUSE)
        for process in list(self._workers.values()):
            process.kill()
        os._exit(1)

    def _obey(self, order: AgentOrder) -> None:
        match order:
            case BeatHeard(sent):
                self._until = sent + LEASE_INTERVALS * self._interval
            case StartWorker(name, command, environment, log):
                Path(log).parent.mkdir(parents=True, exist_ok=True)
                with Path(log).open("ab") as written:
                    bound = partial(die_with_parent, os.getpid())
                    given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": written, "stderr": subprocess.STDOUT}
                    variables = {**os.environ, **environment}
                    self._workers[name] = subprocess.Popen(command, env=variables, start_new_session=True, preexec_fn=bound, **given)
            case StopWorker(name):
                if name in self._workers:
                    self._workers[name].send_signal(signal.SIGTERM)
                    self._deadlines[name] = time.monotonic() + _PATIENCE

    def _look(self) -> None:
        for name, process in list(self._workers.items()):
            if process.poll() is not None:
                del self._workers[name]
                self._deadlines.pop(name, None)
                _say(WorkerEnded(name, process.returncode))
            elif time.monotonic() > self._deadlines.get(name, float("inf")):
                process.kill()


def _clock() -> float:
    """Seconds since this machine was started, those in which it slept too: a laptop that wakes up is to know that its time is up."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _say(news: AgentNews) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    HostAgent(float(sys.argv[1])).run()
