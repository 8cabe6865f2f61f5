"""The thread of a rank's process that hears what it is to do, continues its coroutines, and hands answers to its program.

Coroutines are not continued by the thread of the program, where torch may have modes, and autograd be in the midst of a pass.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from _thread import allocate_lock
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import process_time
from typing import Any

import torch

from polyrhythm.core.kernel.effects import Effect, Send, SendAll, Spawn, Wait
from polyrhythm.core.simulator.carriers import Killed
from polyrhythm.core.simulator.failure import failure
from polyrhythm.core.simulator.threads import shown_line, waits_for_processes
from polyrhythm.errors import PolyrhythmError
from polyrhythm.process_group.messages.desk import Standing
from polyrhythm.torch_programs.processes.costs import ComputedSoFar
from polyrhythm.torch_programs.processes.packing import pack, unpack
from polyrhythm.torch_programs.ranks import forget

Carried = Coroutine[Effect[Any], Any, Any]
really_exit = os._exit


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How the program of a rank has ended: its result or its error, what it waited for, and what was not charged."""

    result: Any
    standing: Standing
    asked: bool = False
    error: PolyrhythmError | None = None
    cause: bytes = b""
    uncharged: dict[str, int] = field(default_factory=dict)


def portable(name: str, error: BaseException) -> tuple[PolyrhythmError, bytes]:
    """The error of the rank `name` for another process, and what has caused it, if that can travel."""
    found = failure(name, error)
    try:
        return found, pack(found.__cause__)
    except Exception:
        return found, b""


class Kernel:
    """That of the rank `name`, whose program is in the thread that makes it; `link` leads to the process of the scheduler."""

    def __init__(self, name: str, link: Connection) -> None:
        self.name = name
        self.now, self.bytes_sent = 0.0, 0
        """The virtual second and the bytes that were sent, as they were when this process was last told something."""
        self.known: Callable[[], ComputedSoFar] = ComputedSoFar
        """What the program has computed."""
        self.after: dict[str, Callable[[], Any]] = {}
        """What is to be done with its count, by the word that comes with an answer."""
        self._link = link
        self._program = threading.get_ident()
        self._sending = threading.Lock()
        self._answered = allocate_lock()
        self._answered.acquire()
        self._answer: tuple[str, tuple[Any, ...]] = ("", ())
        self._coroutines: dict[int, Carried] = {}
        self._without_grad: set[int] = set()
        self._results: dict[int, tuple[Any, BaseException | None]] = {}
        self._last = 0
        self._orders: dict[str, Callable[..., None]] = {"step": self._step, "close": self._close, "look": self._look}
        os.register_at_fork(after_in_child=self._forget)
        threading.Thread(target=self._serve, name="kernel", daemon=True).start()

    def ask(self, name: str, *of: Any) -> Any:
        """Ask the scheduler's process, and wait for its answer; the program's thread alone does. Raises its error."""
        self.say("asks", name, of, self.known())
        answer, (value, after) = self.wait()
        self.after.get(after, tuple)()
        if answer == "killed":
            raise Killed
        if answer == "error":
            raise value
        return value

    def wait(self) -> tuple[str, tuple[Any, ...]]:
        """What this process is told that is for its program."""
        self._answered.acquire()
        return self._answer

    def perform(self, coroutine: Carried) -> Any:
        """Wait until `coroutine` has ended: its result. Raises its error."""
        number = self.carry(coroutine)
        try:
            self.ask("perform", number)
        except Exception:
            _, error = self._results.pop(number, (None, None))
            if error is None:
                raise
            raise error from None
        return self._results.pop(number)[0]

    def carry(self, coroutine: Carried) -> int:
        """The number under which a coroutine is known to the scheduler's process."""
        self._last += 1
        self._coroutines[self._last] = coroutine
        return self._last

    def say(self, what: str, *of: Any) -> None:
        """Say something to the scheduler's process."""
        content = pack((what, *of))
        with self._sending:
            self._link.send_bytes(content)

    def _serve(self) -> None:
        try:
            while True:
                what, of, self.now, self.bytes_sent = unpack(self._link.recv_bytes())
                if what in self._orders:
                    self._orders[what](*of)
                else:
                    self._answer = what, of
                    self._answered.release()
        except (EOFError, OSError):
            really_exit(0)  # the run is over, or the scheduler's process is
        except BaseException:
            sys.__excepthook__(*sys.exc_info())
            really_exit(1)

    def _step(self, number: int, value: Any) -> None:
        coroutine = self._coroutines[number]
        torch.set_grad_enabled(number not in self._without_grad)
        try:
            effect = coroutine.send(value)
            while not self._waits(effect):
                effect = coroutine.send(None)
        except StopIteration as stop:
            self._end(number, stop.value, None)
            self.say("stopped", None, False)
        except BaseException as error:
            self._end(number, None, error)
            self.say("raised", portable(self.name, error)[0], False)
        else:
            self._note_grad(number)
            self._say_effect(effect)

    def _note_grad(self, number: int) -> None:
        """The coroutine waits: it goes on in the grad mode in which it is now."""
        (self._without_grad.discard if torch.is_grad_enabled() else self._without_grad.add)(number)

    def _waits(self, effect: Effect[Any]) -> bool:
        """False for what gives nothing at once, if it is said that the coroutine has gone on."""
        if isinstance(effect, Spawn):
            self.say("spawns", (effect.name, self.carry(effect.coroutine)), True)
        elif isinstance(effect, Send | SendAll):
            self.say("effect", effect, True)
        else:
            return not (isinstance(effect, Wait) and effect.latch.is_open)
        return False

    def _say_effect(self, effect: Effect[Any]) -> None:
        if isinstance(effect, Wait):
            self._last += 1
            number = self._last
            self.say("waits", number, False)
            effect.latch.when_open(lambda: self.say("opened", number))
        else:
            self.say("effect", effect, False)

    def _close(self, number: int) -> None:
        coroutine = self._coroutines.pop(number, None)
        if coroutine is not None:
            coroutine.close()
        self.say("closed")

    def _end(self, number: int, result: Any, error: BaseException | None) -> None:
        del self._coroutines[number]
        self._without_grad.discard(number)
        self._results[number] = result, error

    def _look(self) -> None:
        frame = sys._current_frames().get(self._program)
        self.say("looked", process_time(), "" if frame is None or waits_for_processes(frame) else shown_line(frame))

    def _forget(self) -> None:
        """This is a fork of the process, and no rank: when that ends, the link must."""
        self._link.close()
        forget()


class ToldStream(io.RawIOBase):
    """What is written to it is printed by the scheduler's process, on its stream `name`; in forks of this process by themselves."""

    def __init__(self, kernel: Kernel, name: str, descriptor: int) -> None:
        self._kernel = kernel
        self._name = name
        self._descriptor = descriptor
        self._of = os.getpid()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, content: Any) -> int:
        if os.getpid() == self._of:
            self._kernel.say("told", self._name, bytes(content).decode(errors="replace"))
            return len(content)
        return os.write(self._descriptor, content)
