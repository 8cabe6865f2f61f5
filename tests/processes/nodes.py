"""What tests of connections do with nodes: call within their loops, send, take and flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.runtime.node import Node


def within_loop(node: Node, what: Callable[[], Any]) -> Any:
    completion = Completion()

    def respond() -> None:
        try:
            completion.finish(what(), None)
        except Exception as problem:
            completion.finish(None, problem)

    node.loop.call(respond)
    return completion.wait()


async def send(port: Port, to: str, *messages: Message) -> None:
    for message in messages:
        await port.send(to, message)


async def take(port: Port, topic: str, count: int, sender: str = "") -> list[Message]:
    found = []
    for _ in range(count):
        delivery = await port.receive(topic, sender)
        assert delivery is not None
        found.append(delivery.message)
    return found


async def flush(port: Port) -> None:
    await port.flush()
