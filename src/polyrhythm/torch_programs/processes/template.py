"""The process from which those of ranks are forked: it has imported torch, has one thread, and runs nothing of the user's.

A rank begins as a new interpreter would that has imported torch, without the seconds that takes. Requests come one at a time: to fork, with
the link and the standard streams of the rank, which is answered by its number; and to wait for the end of one, answered by its status.
When the socket ends, the process that started this one has: all ranks are killed, and those are the end of what they have started.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NoReturn

from polyrhythm.core.processes.system.prctl import die_with_parent, set_name
from polyrhythm.torch_programs.processes.rank_process import main as be_rank

REPLY = struct.Struct("<q")
FORK, WAIT = b"fork", b"wait"
_MOST_BYTES = 64
_END_SECONDS = 5.0
_LOOK_SECONDS = 0.005


class Template:
    """This process. Requests come by `server`."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._alive: set[int] = set()

    def serve(self) -> None:
        """Do what is requested until the socket ends."""
        while (found := socket.recv_fds(self._server, _MOST_BYTES, 3))[0]:
            content, descriptors, _, _ = found
            if content == FORK:
                reply = self._fork(descriptors)
            else:
                (number,) = REPLY.unpack(content.removeprefix(WAIT))
                reply = self._wait(number)
            self._server.send(REPLY.pack(reply))
        for number in self._alive:
            with suppress(ProcessLookupError):
                os.killpg(number, signal.SIGKILL)

    def _fork(self, descriptors: list[int]) -> int:
        template = os.getpid()
        number = os.fork()
        if number == 0:
            self._become(template, descriptors)
        with suppress(OSError):  # it may have done so itself, or be gone
            os.setpgid(number, number)
        for each in descriptors:
            os.close(each)
        self._alive.add(number)
        return number

    def _wait(self, number: int) -> int:
        """Wait until it has ended; one that has only closed its link is killed."""
        until = time.monotonic() + _END_SECONDS
        while not (found := os.waitpid(number, os.WNOHANG))[0]:
            if time.monotonic() > until:
                os.kill(number, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)
        self._alive.discard(number)
        return os.waitstatus_to_exitcode(found[1])

    def _become(self, template: int, descriptors: list[int]) -> NoReturn:
        """Be the rank, and never come back into the template's code."""
        try:
            die_with_parent(template)
            self._server.close()
            link, *streams = descriptors
            for number, stream in enumerate(streams, 1):
                os.dup2(stream, number)
                os.close(stream)
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)
            be_rank(Connection(link))
        except BaseException:
            sys.__excepthook__(*sys.exc_info())
        finally:
            os._exit(1)


def main(descriptor: int, parent: int, bound: bool, preload: list[str]) -> None:
    """Be the template, which has imported the modules of `preload`.

    With `bound` the kernel kills it with the thread that has started it, which is then the main one.
    """
    if bound:
        die_with_parent(parent)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):  # the process that has started this one decides
        signal.signal(each, signal.SIG_IGN)
    set_name("polyrhythm")
    for name in preload:
        importlib.import_module(name)
    server = socket.socket(fileno=descriptor)
    server.setblocking(True)
    os.set_inheritable(descriptor, False)
    gc.freeze()  # a collection in a rank would else copy the pages of all that is imported
    Template(server).serve()
