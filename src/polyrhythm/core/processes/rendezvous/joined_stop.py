"""The end of a joined worker that is asked to stop: after the same step as all others, with a last checkpoint, or without one.

Every worker that is asked says so to all others, with how far it is. One without which the run cannot continue takes them along. For
another one it is first seen whether all have been asked, as by a launcher that is being ended, or whether it leaves alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.stopping import come_again
from polyrhythm.core.processes.rendezvous.launcher_process import LauncherProcess
from polyrhythm.core.processes.rendezvous.peer_monitor import PeerMonitor
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.stop_point import ENDED, StopVote
from polyrhythm.errors import PolyrhythmError, Stopped, WorkerFailed, WorkerStopped

_TOGETHER_SECONDS = 1.0
"""A launcher signals all of its processes, one after the other, and may have noticed a loss before we have."""
_LOOK_SECONDS = 0.02


class JoinedStop:
    """The stop of the worker of `node`, in a run with `workers` that continues without those that are not `essential`."""

    def __init__(
        self, node: Node, monitor: PeerMonitor, workers: Sequence[str], essential: Callable[[str], bool], launcher: LauncherProcess | None
    ) -> None:
        self.grace = 0.0
        self.asked: set[str] = set()
        self._node = node
        self._monitor = monitor
        self._name = node.port.name
        self._essential = essential
        self._launcher = launcher
        self._vote = StopVote(list(workers))
        self._problem: Stopped | None = None
        self._timer: threading.Timer | None = None
        node.stop_point.on_stop = self._stop
        monitor.on_stopping = self._hear

    def ask(self, problem: Stopped) -> None:
        """Ask this process to end; called in a signal handler."""
        if not self.grace or self._node.steps.stopped:
            raise problem
        problem.kept, self._problem = False, problem
        self._give(self.grace if self._essential(self._name) else min(self.grace, _TOGETHER_SECONDS))
        self._node.loop.call(self._announce)

    def _give(self, seconds: float) -> None:
        """Give the program so many seconds from now on until it is broken off."""
        self.close()
        self._timer = threading.Timer(seconds, self._break_off)
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """The program is on its way out: nothing breaks it off any more."""
        if self._timer is not None:
            self._timer.cancel()

    def explained(self, problem: Stopped, lost: Sequence[str]) -> PolyrhythmError | Stopped:
        """The error of this worker, which `problem` ended: the earlier failure of another one, or the signal, with what is known of it.

        `lost` are the workers without which the run has continued, as its strategy promises.
        """
        self.close()
        problem.kept = self._problem.kept if self._problem is not None else problem.kept
        deadline = time.monotonic() + _TOGETHER_SECONDS
        while self._launcher is not None and not self._known(lost) and problem.kept is None and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        failure, gone = self._node.failure, [name for name in lost if name not in self.asked]
        by = "" if self._launcher is None else f" from its launcher ({self._launcher.name})"
        if isinstance(failure, WorkerFailed) and not isinstance(failure, WorkerStopped):
            then = f"; {self._name} was then stopped by {problem.signal}{by}"
            return WorkerFailed(failure.actor, failure.reason + then, failure.trace)
        problem.reason = by
        if gone and self._launcher is not None and self._launcher.ends_all:
            problem.reason += f" after the loss of {' and '.join(gone)}, which the run survives, but {self._launcher.name} ends all then"
        return problem

    def _known(self, lost: Sequence[str]) -> bool:
        """True if it is known why the launcher ends this process: another one has failed, is lost, or is asked to end too."""
        return self._node.failure is not None or bool(lost) or bool(self.asked)

    def _announce(self) -> None:
        """Have the program wait after its next step, and say to all how far it is; once."""
        if self._name not in self._vote.missing:
            return
        clock = self._node.stop_point.hold()
        self._vote.add(self._name, clock)
        self._monitor.send_stopping(clock)
        self._settle()

    def _hear(self, name: str, message: Message) -> None:
        """Another worker has been asked to end."""
        (number,) = message.numbers
        self.asked.add(name)
        if not self._vote.missing:
            return  # it has stopped where all do, and leaves
        self._vote.add(name, int(number))
        if self._problem is None and self._essential(name) and number != ENDED and self.grace:
            self._announce()
        self._settle()

    def _settle(self) -> None:
        if self._name in self._vote.missing:
            return
        if self._vote.hopeless:
            if self._problem is not None:
                self._break_off()
        elif not self._vote.missing:
            if self._problem is not None:
                self._give(self.grace)  # all are asked, so nobody waits for this worker to be lost
            self._node.stop_point.settle(self._vote.step)

    def _break_off(self) -> None:
        """Have the signal come once more, which raises Stopped where the program is."""
        assert self._problem is not None, "else nobody was asked"
        come_again(self._problem)

    def _stop(self, kept: bool) -> None:
        """End the program, in its thread, after the step after which all stop."""
        self.close()
        if self._problem is not None:
            self._problem.kept = kept
            raise self._problem
        names = sorted(self.asked)
        raise WorkerStopped(names[0], "it was asked to end" + (", and a last checkpoint was written before" if kept else ""))
