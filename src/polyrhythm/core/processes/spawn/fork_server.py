"""The process that has imported everything and forks the others, so that a run starts in the time of a fork.

It has one thread and runs nothing of the user's. It has one socket to its parent: `Fork` and `Kill` come in,
`Refused` and `Died` go out; a fork that went well is not acknowledged, since its parent may be requesting many and not be
reading yet. When that socket ends, or its parent is gone, it kills its children and ends.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from polyrhythm.core.kernel.stopping import ENDING
from polyrhythm.core.processes.system.descriptors import allow_many
from polyrhythm.core.processes.system.prctl import die_with_parent, set_name

MOST_BYTES = 1 << 17
_LOOK_SECONDS = 1.0


class Fork(msgspec.Struct, tag=True, frozen=True):
    """Make a process for the actor `name`. With it come descriptors: its control socket, that of its beats, its job spec, stdout
    and stderr."""

    name: str
    device: str
    preload: list[str]


class Kill(msgspec.Struct, tag=True, frozen=True):
    """Kill the child `name`, or all if that is empty, and theirs."""

    name: str = ""


class Refused(msgspec.Struct, tag=True, frozen=True):
    """A child could not be made."""

    name: str
    why: str


class Died(msgspec.Struct, tag=True, frozen=True):
    """A child ended: an exit code, or the negative number of the signal that killed it."""

    name: str
    status: int


Request = Fork | Kill
Reply = Refused | Died


class ForkServer:
    """The fork server's own loop."""

    def __init__(self, parent: socket.socket, parent_pid: int) -> None:
        self._parent = parent
        self._parent_pid = parent_pid
        self._pid = os.getpid()
        self._children: dict[int, str] = {}
        self._decoder = msgspec.msgpack.Decoder(Request)
        self._encoder = msgspec.msgpack.Encoder()

    def serve(self) -> None:
        """Serve requests until the parent is gone."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        for source in (reader, self._parent):
            selector.register(source, selectors.EVENT_READ)
        listening = True
        while listening and os.getppid() == self._parent_pid:
            ready = [key.fileobj for key, _ in selector.select(_LOOK_SECONDS)]
            if reader in ready:
                os.read(reader, 4096)
                self._reap()
            if self._parent in ready:
                listening = self._receive()
        self._kill()

    def _receive(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._parent, MOST_BYTES, 8)
        if not data:
            return False
        request = self._decoder.decode(data)
        if isinstance(request, Fork):
            self._fork(request, descriptors)
        else:
            self._kill(request.name)
        return True

    def _fork(self, request: Fork, descriptors: list[int]) -> None:
        _preload(request.preload)
        gc.freeze()  # a collection in a child would else copy the pages of all that is imported
        try:
            pid = os.fork()
        except OSError as problem:
            self._reply(Refused(request.name, str(problem)))
        else:
            if pid == 0:
                self._become(request, descriptors)
            self._children[pid] = request.name
        for descriptor in descriptors:
            os.close(descriptor)

    def _become(self, request: Fork, descriptors: list[int]) -> None:
        """Be the child, and never come back into the fork server's code."""
        code = 1
        try:
            die_with_parent(self._pid)
            set_name(request.name)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher handles interrupts
            os.setsid()
            self._parent.close()
            control, beats, job_spec, out, err = descriptors
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.close(out)
            os.close(err)
            from polyrhythm.core.processes.spawn.child import run

            channels = socket.socket(fileno=control), socket.socket(fileno=beats)
            code = run(channels, request.name, request.device, job_spec)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            # not sys.exit: nothing of the user's may hold the process up, nor the fork server's own clean-up run here
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):  # its reader is gone, or the user closed it
                    stream.flush()
            os._exit(code)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            name = self._children.pop(pid, "")
            _kill(os.killpg, pid)  # what the child itself had started goes with it
            self._reply(Died(name, os.waitstatus_to_exitcode(status)))

    def _kill(self, only: str = "") -> None:
        for pid, name in self._children.items():
            if only in ("", name):
                _kill(os.killpg, pid)
                _kill(os.kill, pid)  # one that is too young to have a group

    def _reply(self, reply: Reply) -> None:
        try:
            self._parent.send(self._encoder.encode(reply))
        except OSError:
            return  # the parent is gone, which the loop finds out next


def _kill(how: Callable[[int, int], None], pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        how(pid, signal.SIGKILL)


def _preload(names: list[str]) -> None:
    for name in names:
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except Exception:  # a child that needs it raises a better error
                continue


def _warm() -> None:
    """Import what every training program comes to import, the compiler behind `torch.optim` included."""
    import torch

    from polyrhythm.core.processes.spawn import child

    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.1).step()
    assert child


def main(descriptor: int, parent_pid: int, bound: bool) -> None:
    """Run the fork server. `bound` has the kernel kill it with the thread that started it, which must then be the main thread."""
    if bound:
        die_with_parent(parent_pid)
    for number in (signal.SIGINT, *ENDING):  # a batch system sends them to all processes of a job, and the launcher decides
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the thread that started this may have blocked the death of children
    set_name("polyrhythm")
    allow_many()  # for the children, which inherit it
    _warm()
    parent = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    ForkServer(parent, parent_pid).serve()
