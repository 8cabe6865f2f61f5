"""The calibration's side of a host: its agent, which ssh started, with orders to it and what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from shlex import join, quote, split
from types import TracebackType
from typing import Any

import msgspec

from polyrhythm.core.processes.system.prctl import die_with_parent
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.tools.measuring.hosts.host_list import PYTHON, SurveyedHost
from polyrhythm.tools.measuring.hosts.host_messages import BEAT_SECONDS, StillThere, SurveyNews, SurveyOrder
from polyrhythm.tools.measuring.hosts.ssh_failures import why_ended

_AGENT = ("-m", "polyrhythm.tools.measuring.hosts.survey_agent")
_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "ControlMaster=no")
"""A connection that is shared already is used; one that is begun here would stay, and keep what we read from open."""
_ENDING_SECONDS = 8.0
_LAST_LINES = 40

Hear = Callable[["HostLink", SurveyNews | PolyrhythmError], None]


class HostLink:
    """The agent on `host`. All that it says is given to `hear`, by a thread, and at last why it ended.

    What it prints besides is given to `show`, each line once, when it has said something.
    """

    def __init__(self, host: SurveyedHost, ssh: str, hear: Hear, show: Callable[[str], None]) -> None:
        self.host = host
        self._hear = hear
        self._show = show
        self._began = self._quiet = False
        self._written: deque[str] = deque(maxlen=_LAST_LINES)
        words = [host.python or sys.executable, *_AGENT] if host.is_here else reached(host, ssh)
        bound = partial(die_with_parent, os.getpid())
        given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            self.process = subprocess.Popen(words, start_new_session=True, preexec_fn=bound, **given)
        except OSError as problem:
            raise CompositionError(f"{words[0]!r} cannot be started ({problem.strerror}): give --ssh a program that is there.") from None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read_words, self._read, self._beat)]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:  # no more threads: nobody would end it
            self._kill()
            raise

    def order(self, order: SurveyOrder) -> None:
        """Give an order; nothing happens where the agent has ended, as `hear` is told."""
        assert self.process.stdin is not None
        with self._lock, suppress(OSError, ValueError):
            self.process.stdin.write(msgspec.json.encode(order) + b"\n")
            self.process.stdin.flush()

    def __enter__(self) -> HostLink:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        """End the agent, and all that it has started; what they print then is shown only where all went well."""
        assert self.process.stdin is not None
        self._quiet = kind is not None
        self._over.set()
        with self._lock, suppress(OSError):
            self.process.stdin.close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_ENDING_SECONDS if self._began else 0.0)
        finally:  # also where somebody is tired of waiting
            self._kill()
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _kill(self) -> None:
        """End all of its session: what it has started may be left, also when it has ended, and hold open what we read from."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        decoder = msgspec.json.Decoder(SurveyNews)
        for line in self.process.stdout:
            try:
                news = decoder.decode(line)
            except msgspec.MsgspecError:  # a shell's greeting
                continue
            self._began = True
            self._hear(self, news)
        code = self.process.wait()
        self._threads[0].join()
        if not self._over.is_set():
            self._hear(self, why_ended(self.host, code, "\n".join(self._written), self._began))

    def _read_words(self) -> None:
        assert self.process.stderr is not None
        shown: set[str] = set()
        for line in self.process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._written.append(text)
            if self._began and text and text not in shown and not self._quiet:
                shown.add(text)
                self._show(f"{self.host.name}: {text}")

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            self.order(StillThere())


def reached(host: SurveyedHost, ssh: str) -> list[str]:
    """The words that start the agent on `host`: those of `ssh` come first, so that its options go before ours."""
    try:
        words = split(ssh)
    except ValueError:
        words = []
    if not words:
        raise CompositionError(f"--ssh {ssh!r} is no command: give one such as 'ssh -i ~/.ssh/lab'.")
    port = [] if host.port is None else ["-p", str(host.port)]
    return [*words, *_OPTIONS, *port, host.target, command_there(host.python or PYTHON)]


def command_there(python: str) -> str:
    """A line for any shell there that becomes the agent; `python` is a program, or an environment that has one."""
    path = f'"$HOME"/{quote(python[2:])}' if python.startswith("~/") else quote(python)
    return join(["exec", "sh", "-c", f'p={path}; test -d "$p" && p="$p/bin/python"; exec "$p" -u {join(_AGENT)}'])
