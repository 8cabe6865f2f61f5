"""The decision of a joined worker whose connections with another break off: to continue without that one, or to fail."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.core.kernel.events import Faulted, Recorder
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.processes.rendezvous.launcher_process import launcher_process
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.errors import TamperedError, WorkerFailed

_TOGETHER_SECONDS = 0.2
"""Actors of one host fall together, and some report why: so long is waited for all to be known before one is named."""


class LossPolicy:
    """Decides in the loop's thread: the run continues without an actor that is not `essential`, and fails without another.

    It fails at once where what any actor sent was altered on its way: then nobody is lost, but somebody alters what is sent.
    """

    def __init__(self, node: Node, essential: Callable[[str], bool], record: Recorder) -> None:
        self.lost: list[str] = []
        self.on_loss: Callable[[str], None] = node.lose
        self._node = node
        self._essential = essential
        self._record = record
        self._broken: dict[str, Exception | None] = {}
        self._launcher = launcher_process()
        node.on_connection_lost = self._connection_lost

    def _connection_lost(self, name: str, why: Exception | None) -> None:
        if isinstance(why, TamperedError):
            self._node.fail(why)
        elif name not in self._broken:
            self._broken[name] = why
            self._node.loop.after(_TOGETHER_SECONDS, lambda: self._decide(name))

    def _decide(self, name: str) -> None:
        if self._node.failure is not None or self._node.is_over(name):
            return
        if self._essential(name):
            self._name_broken()
            return
        self.lost.append(name)
        self._record(Faulted(self._node.port.now(), name, "its connection was lost"))
        self._node.lose(name)
        self.on_loss(name)
        notify(f"{self._node.port.name} continues without {name}, whose connection was lost.{self._warning}")

    @property
    def _warning(self) -> str:
        """The sentence on a launcher that will end all workers because of the loss; empty for any other."""
        if self._launcher is None or not self._launcher.ends_all:
            return ""
        return (
            f" But {self._launcher.name} ends all workers when one is lost: to survive that, start them with polyrhythm run or srun, or "
            "have them started again from a checkpoint."
        )

    def _name_broken(self) -> None:
        """Fail, naming a worker rather than the servers that fell with it."""
        broken = [name for name in self._broken if self._essential(name) and not self._node.is_over(name)]
        first, *rest = sorted(broken, key=lambda name: name.startswith("server/"))
        why, also = self._broken[first], f", together with those of {', '.join(rest)}" if rest else ""
        self._node.fail(WorkerFailed(first, f"its connections were lost before it had finished{f' ({why})' if why else ''}{also}"))
