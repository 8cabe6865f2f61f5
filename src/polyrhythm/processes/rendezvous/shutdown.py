"""How a joined worker leaves its run: when all others do, and with what all have counted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable

from polyrhythm.errors import RunError
from polyrhythm.kernel.events import Ended, Recorder
from polyrhythm.kernel.job import Ending
from polyrhythm.kernel.message import Message
from polyrhythm.processes.rendezvous.peer_monitor import PeerMonitor
from polyrhythm.processes.runtime.completion import Completion
from polyrhythm.processes.runtime.node import Node
from polyrhythm.processes.spawn.supervisor import Supervisor

_LOOK_SECONDS = 0.002
_TELLING_SECONDS = 2.0


class Shutdown:
    """Of the worker of `node`, with its `wards`, from what `overview` knows of the others."""

    def __init__(self, node: Node, overview: PeerMonitor, wards: Supervisor, record: Recorder) -> None:
        self._node = node
        self._overview = overview
        self._wards = wards
        self._record = record

    def leave(self, others: Iterable[str], result: Message | None, lost: list[str]) -> Ending:
        """Wait until what was sent has been taken in, and all of `others` have left too; `lost` fills meanwhile.

        The totals of the ending are those of all. Of its results the worker's own is whole; of others there are the numbers.
        Raises why the node failed, if it has: a failure that is heard of after a good-bye counts.
        """
        node, wards = self._node, self._wards
        others, name, seconds = list(others), node.port.name, node.port.now()
        node.steps.leaving = True
        taken = threading.Event()
        node.loop.call(lambda: node.finish(taken.set))
        self.wait(taken.is_set)
        self._record(Ended(node.port.now(), name, node.peers.bytes_sent, node.peers.messages_sent))
        self.wait(lambda: wards.over)
        node.loop.call(wards.release)
        self.wait(lambda: wards.gone)
        counted = [(node.peers.bytes_sent, node.peers.messages_sent), *wards.totals.values()]
        mine = Message(
            "farewell", (sum(each[0] for each in counted), sum(each[1] for each in counted), *(result.numbers if result else ()))
        )
        told = threading.Event()
        node.loop.call(lambda: self._tell(lambda: self._overview.tell_farewell(mine.numbers), told.set))
        self.wait(told.is_set)
        self.wait(lambda: all(self._overview.is_over(each) for each in others))
        heard = {each: message.numbers for each, message in self._overview.farewells.items()}
        totals = [mine.numbers, *heard.values()]
        results = {each: Message("result", numbers[2:]) if numbers[2:] else None for each, numbers in heard.items()}
        nbytes, messages = (int(sum(numbers[place] for numbers in totals)) for place in range(2))
        return Ending({**results, name: result}, nbytes, messages, seconds, lost)

    def tell_failure(self, why: BaseException) -> None:
        """Tell all that `why` has ended this worker, and wait until that is on its way."""
        told = Completion()
        self._node.loop.call(lambda: self._tell(lambda: self._overview.tell_failure(why), lambda: told.finish(None, None)))
        told.wait()

    def wait(self, reached: Callable[[], bool], seconds: float = math.inf) -> None:
        """Block until `reached` holds in the loop's thread. Raises why the node failed, if it has; RunError after `seconds`."""
        node, ticket, deadline = self._node, Completion(), time.monotonic() + seconds

        def look() -> None:
            if node.failure is not None or reached():
                ticket.finish(None, node.failure)
            elif time.monotonic() > deadline:
                name = node.port.name
                ticket.finish(None, RunError(f"{name} has met the others, and not all have answered within {seconds:g} seconds."))
            else:
                node.loop.after(_LOOK_SECONDS, look)

        node.loop.call(look)
        ticket.wait()

    def _tell(self, tell: Callable[[], None], done: Callable[[], None]) -> None:
        self._node.loop.after(_TELLING_SECONDS, done)  # somebody may take nothing in any more
        tell()
        self._node.peers.when_drained(done)
