"""One actor in its process, without others."""

from __future__ import annotations

from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.transport.addresses import listen_locally
from polyrhythm.core.processes.transport.frame_link import Wiring


async def nothing() -> None:
    return None


def test_a_program_that_performs_what_sends_nothing_is_seen_to_move() -> None:
    node = Node(Role("worker/0", bytes(32)), Wiring(), listen_locally(), lambda _: None)
    node.start()
    try:
        before = node.moved
        node.complete(nothing())
        assert node.moved != before, "else it would be taken for one that waits"
    finally:
        node.stop()
