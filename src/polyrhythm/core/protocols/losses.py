"""Notices of lost actors, as a topology's coroutines receive them.

`strategy.current_view` sends them, at workers and at servers; topologies and tables follow them.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.port import Port

GONE = "gone"
"""The topic; the text of a message is the actor's name."""


async def follow_losses(port: Port, lose: Callable[[str], Coroutine[Effect[Any], Any, None]]) -> None:
    """Have a coroutine await `lose(name)` for every notice from now on."""

    async def follow() -> None:
        while True:
            delivery = await port.receive(GONE)
            assert delivery is not None
            await lose(delivery.message.text)

    await port.spawn("lost", follow())
