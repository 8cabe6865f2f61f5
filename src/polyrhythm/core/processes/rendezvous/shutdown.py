"""The way in which a joined worker leaves its run: when all others do, and with the totals of all."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable

from polyrhythm.core.kernel.events import Ended, Recorder
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.rendezvous.local_servers import LocalServers
from polyrhythm.core.processes.rendezvous.peer_monitor import PeerMonitor
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.stop_point import ENDED
from polyrhythm.errors import RunError

_LOOK_SECONDS = 0.002
_SENDING_SECONDS = 2.0


class Shutdown:
    """The shutdown of the worker of `node` and its `servers`, by what `monitor` knows of the others."""

    def __init__(self, node: Node, monitor: PeerMonitor, servers: LocalServers, record: Recorder) -> None:
        self._node = node
        self._monitor = monitor
        self._servers = servers
        self._record = record

    def leave(self, others: Iterable[str], result: Message | None, lost: list[str]) -> Ending:
        """Wait until what was sent has been taken in, and all of `others` have left too; `lost` fills meanwhile.

        The totals of the ending are those of all. Of its results the worker's own is whole; of others there are the numbers.
        Raises why the node failed, if it has: a failure that is received after the announced end counts.
        """
        node, servers = self._node, self._servers
        others, name, seconds = list(others), node.port.name, node.port.now()
        node.steps.leaving = True
        taken = threading.Event()
        node.loop.call(lambda: node.finish(taken.set))
        self.wait(taken.is_set)
        for carried in node.peers.carried(node.port.now()):
            self._record(carried)
        self._record(Ended(node.port.now(), name, node.peers.bytes_sent, node.peers.messages_sent))
        self.wait(lambda: servers.over)
        node.loop.call(servers.release)
        self.wait(lambda: servers.gone)
        mine = Message("farewell", (*self.traffic, *(result.numbers if result else ())))
        sent = threading.Event()
        node.loop.call(lambda: self._send(lambda: self._monitor.send_final(mine.numbers), sent.set))
        self.wait(sent.is_set)
        self.wait(lambda: all(self._monitor.is_over(each) for each in others))
        received = {each: message.numbers for each, message in self._monitor.final_messages.items()}
        totals = [mine.numbers, *received.values()]
        results = {each: Message("result", numbers[2:]) if numbers[2:] else None for each, numbers in received.items()}
        nbytes, messages = (int(sum(numbers[index] for numbers in totals)) for index in range(2))
        return Ending({**results, name: result}, nbytes, messages, seconds, lost)

    @property
    def traffic(self) -> tuple[int, int]:
        """The bytes and messages that the worker and its servers have sent so far."""
        sent = [(self._node.peers.bytes_sent, self._node.peers.messages_sent), *self._servers.totals]
        return sum(nbytes for nbytes, _ in sent), sum(count for _, count in sent)

    def send_failure(self, why: Message) -> None:
        """Send all that this worker has failed, and wait until that is on its way."""
        sent = Completion()
        self._node.loop.call(lambda: self._send(lambda: self._monitor.send_failure(why), lambda: sent.finish(None, None)))
        sent.wait()

    def send_stopping(self) -> None:
        """Send all that this worker leaves because it was asked to end, and wait until that is on its way."""
        sent = Completion()
        self._node.loop.call(lambda: self._send(lambda: self._monitor.send_stopping(ENDED), lambda: sent.finish(None, None)))
        sent.wait()

    def wait(self, reached: Callable[[], bool], seconds: float = math.inf) -> None:
        """Block until `reached` holds in the loop's thread. Raises why the node failed, if it has; RunError after `seconds`."""
        node, completion, deadline = self._node, Completion(), time.monotonic() + seconds

        def look() -> None:
            if node.failure is not None or reached():
                completion.finish(None, node.failure)
            elif time.monotonic() > deadline:
                name = node.port.name
                completion.finish(
                    None, RunError(f"{name} is connected, but not all other workers have responded within {seconds:g} seconds.")
                )
            else:
                node.loop.after(_LOOK_SECONDS, look)

        node.loop.call(look)
        completion.wait()

    def _send(self, send: Callable[[], None], done: Callable[[], None]) -> None:
        self._node.loop.after(_SENDING_SECONDS, done)  # somebody may take nothing in any more
        send()
        self._node.peers.when_drained(done)
