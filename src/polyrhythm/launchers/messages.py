"""The messages between tasks and their driver.

task      registered   it is ready for an attempt
driver    work         the pickled work, over the authenticated connection only
driver    begin        an attempt at the run begins (Beginning)
task      entered      the name of its worker in a crew that changes
both      door         where the first member of such a crew has its door: the port and the address
driver    over         the attempt is over: it is in vain to wait for others
task      events       what its worker has recorded, and the bytes and messages that it has sent so far
task      printed      text for the driver's stdout or stderr
task      failed       as in `processes.runtime.failure`
task      ended        its worker has ended well: the result, with the totals of the run (Totals)
driver    stop         the run is over
"""

from __future__ import annotations

import msgspec

from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import FIRST


class Beginning(msgspec.Struct, frozen=True):
    """Attempt number `attempt`, whose rendezvous store is at `host` and `port`; `continued` from the newest checkpoint.

    In a crew that changes there is no store: one task begins the run, with so many `founders`, and the others look for its door.
    """

    attempt: int
    host: str
    port: int
    continued: bool
    founders: int = 0


class Totals(msgspec.Struct, frozen=True):
    """An `Ending` without the worker's own result: the numbers of others', what all have sent, the seconds, who was lost, who is first."""

    text: str
    numbers: dict[str, tuple[float, ...]]
    bytes_sent: int
    messages_sent: int
    seconds: float
    lost: list[str]
    first: str = FIRST


def ended(name: str, ending: Ending) -> Message:
    """The message that the worker `name` has ended, with all that it knows of the run."""
    own = ending.results[name] or Message("result")
    numbers = {each: result.numbers for each, result in ending.results.items() if result is not None}
    totals = Totals(own.text, numbers, ending.bytes_sent, ending.messages_sent, ending.seconds, list(ending.lost), ending.first)
    return Message("ended", text=msgspec.json.encode(totals).decode(), tensors=own.tensors)


def ending(name: str, message: Message) -> Ending:
    """The end of the run, from the message of the worker `name`: its own result whole, and of other workers' results the numbers."""
    totals = msgspec.json.decode(message.text, type=Totals)
    results: dict[str, Message | None] = {each: Message("result", numbers) for each, numbers in totals.numbers.items()}
    results[name] = Message("result", totals.numbers.get(name, ()), totals.text, message.tensors)
    return Ending(results, totals.bytes_sent, totals.messages_sent, totals.seconds, totals.lost, first=totals.first)
