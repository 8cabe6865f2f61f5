"""What a rank in a process of its own asks of its run, done here in its place: by its program, as the scheduler knows it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.simulator.carriers import Killed
from polyrhythm.errors import PolyrhythmError
from polyrhythm.process_group.messages.calls import IssuedCall
from polyrhythm.torch_programs.meeting import Shared
from polyrhythm.torch_programs.processes.costs import RemoteCount
from polyrhythm.torch_programs.processes.handle import CarriedCoroutine, RankHandle
from polyrhythm.torch_programs.processes.packing import unpack


class Requests:
    """Those of the rank of `context`, whose process `handle` leads to; `shared` is what all ranks share."""

    def __init__(self, context: WorkerContext, shared: Shared, handle: RankHandle) -> None:
        self._context = context
        self._shared = shared
        self._handle = handle
        self._stores: dict[tuple[object, ...], Store] = {}
        self.time = context.time
        self.charge = context.charge
        self.charge_merge = context.charge_merge
        self.reach = context.reach
        self.discard = context.discard
        self.stopped = context.stopped

    def perform(self, number: int) -> None:
        """Wait until its coroutine has ended."""
        self._context.perform(CarriedCoroutine(self._handle, number))  # type: ignore[arg-type]

    def begin(self, number: int, done: float) -> None:
        """Start its coroutine."""
        self._context.begin(CarriedCoroutine(self._handle, number), done)  # type: ignore[arg-type]

    def written(self) -> None:
        """It has written its part of a checkpoint."""
        self._context.write(lambda: None)

    def issue(self, rank: int, call: IssuedCall) -> None:
        """It issues a collective."""
        self._shared.ledger.compare(rank, call)

    def agree(self, scope: str, name: str, facts: Facts, remedy: str) -> None:
        """Compare facts with those of other workers."""
        self._shared.rounds(scope).agree(name, facts, remedy)

    def align(self, scope: str, name: str, alignment: Alignment) -> Message | None:
        """Compare states with those of other workers."""
        return self._shared.rounds(scope).align(name, alignment)

    def compare(self, scope: str, name: str, comparison: Comparison) -> None:
        """Compare with workers at the same moment."""
        self._shared.rounds(scope).compare(name, comparison)

    def store(self, address: tuple[object, ...], deed: str, *of: Any) -> Any:
        """Do something with the store at `address`."""
        if address not in self._stores:
            self._stores[address] = self._shared.store(self._context, address)
        return getattr(self._stores[address], deed)(*of)

    def told(self, what: str, of: Any) -> None:
        """It has recorded an event, or has printed."""
        if what == "event":
            self._context.record(of)
        else:
            getattr(sys, what).write(of)


def attend(context: WorkerContext, shared: Shared, handle: RankHandle, count: RemoteCount, note: Callable[[Any], None]) -> Message | None:
    """Be the rank of `context` here, as its process asks for it: its result. Raises its error; operations not charged go to `note`."""
    requests = Requests(context, shared, handle)
    handle.told = requests.told
    handle.moment = lambda: (context.port.now(), context.bytes_sent)
    try:
        handle.tell("begin")
        while (heard := handle.hear())[0] == "asks":
            _, name, of, known = heard
            count.learn(known)
            handle.tell(*_answer(getattr(requests, name), of), count.after)
    except BaseException:
        handle.give_up()  # it was not heard to its end
        raise
    _, end, known = heard
    count.learn(known)
    note(end.uncharged)
    shared.standings[rank_of(context.port.name)] = end.standing
    shared.asked |= end.asked
    if end.error is not None:
        raise _error(end.error, end.cause)
    return end.result  # type: ignore[no-any-return]


def _answer(do: Callable[..., Any], of: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "answer", do(*of)
    except Killed:
        return "killed", None
    except (Exception, SystemExit) as problem:
        return "error", problem


def _error(error: PolyrhythmError, cause: bytes) -> PolyrhythmError:
    """The error of the process, with what has caused it; where that cannot be made here, with its text."""
    try:
        error.__cause__ = unpack(cause)
    except Exception:
        error.__cause__ = RuntimeError(str(error))
    return error
