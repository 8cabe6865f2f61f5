"""The facts that must be equal at all workers, as messages between their runtimes."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from polyrhythm.core.kernel.agreement import Agreements, Facts
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport.wire import packed


class AgreementRequest(msgspec.Struct, frozen=True):
    """The facts, and what to do where they differ."""

    facts: dict[str, str]
    remedy: str


def agreement_request(facts: Facts, remedy: str, epoch: int = 0) -> Message:
    """The message that carries them, in the view of that `epoch`."""
    return Message("agree", (float(epoch),), tensors=packed(msgspec.json.encode(AgreementRequest(dict(facts), remedy))))


def comparison_message(comparison: Comparison, epoch: int = 0) -> Message:
    """The message that carries it, in the view of that `epoch`."""
    return Message("compare", (float(epoch),), tensors=packed(msgspec.msgpack.encode(comparison)))


def comparison_of(message: Message) -> Comparison:
    """The comparison that `comparison_message` has packed."""
    return msgspec.msgpack.decode(message.tensors[0].numpy().data, type=Comparison)


class AgreementCollector:
    """Collects the facts of workers, until those of all have come for a round."""

    def __init__(self) -> None:
        self._agreements = Agreements()
        self._settled = 0

    def add(self, name: str, message: Message) -> None:
        """The facts of the worker `name` have come."""
        request = msgspec.json.decode(message.tensors[0].numpy().data, type=AgreementRequest)
        self._agreements.submit(name, request.facts, request.remedy)

    def settle(self, names: Collection[str]) -> str | None:
        """The sentence of the next round that all of `names` have sent facts for, "" if they are equal; None if some are still to come."""
        if not self._agreements.complete(self._settled, names):
            return None
        difference = self._agreements.difference(self._settled)
        self._settled += 1
        return difference or ""
