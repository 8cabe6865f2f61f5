"""The agent of one host: it starts the workers that belong there, says when they end, and gives a beat every so many seconds.

`python -m polyrhythm.tools.scheduling.host_agent SECONDS`, with one JSON object a line on its standard input (orders) and output (news).
When its input ends, or it is killed, its workers end with it: a host whose connection is lost trains nothing that nobody knows of.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.core.processes.system.prctl import die_with_parent
from polyrhythm.tools.scheduling.gpu_health import broken_gpus
from polyrhythm.tools.scheduling.news import AgentNews, HostBeat, StartWorker, StopWorker, WorkerEnded

_PATIENCE = 10.0
"""Seconds that a worker which was asked to end has for it."""


class HostAgent:
    """The workers of this host by their names."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._deadlines: dict[str, float] = {}

    def run(self) -> None:
        """Carry orders out until there are no more."""
        orders = msgspec.json.Decoder(StartWorker | StopWorker)
        os.set_blocking(sys.stdin.fileno(), False)
        rest, due = b"", 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            while True:
                if selector.select(0.05):
                    read = os.read(sys.stdin.fileno(), 65536)
                    if not read:
                        break
                    *lines, rest = (rest + read).split(b"\n")
                    for line in lines:
                        self._obey(orders.decode(line))
                self._look()
                if time.monotonic() >= due:
                    _say(HostBeat(broken_gpus()))
                    due = time.monotonic() + self._interval
        for process in self._workers.values():
            process.kill()

    def _obey(self, order: StartWorker | StopWorker) -> None:
        match order:
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


def _say(news: AgentNews) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    HostAgent(float(sys.argv[1])).run()
