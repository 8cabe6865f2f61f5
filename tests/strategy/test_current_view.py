"""The view of an actor: every part of it is notified of every loss once, in the same order, also of those before it started."""

from __future__ import annotations

from typing import Any

import pytest

from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.mesh import DATA, WorkerMesh
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy.current_view import CurrentView
from polyrhythm.hardware.faults import Crash

CRASHES = (Crash("worker/3", at=1.0), Crash("worker/1", at=2.0))


async def no_service(port: Any, record: Any) -> None:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("axes", "expected"),
    [(((DATA, 4),), ("worker/3", "worker/1")), (((DATA, 2), ("stage", 2)), ("worker/2", "worker/3", "worker/0", "worker/1"))],
)
def test_every_topic_gets_the_names_of_all_that_leave_in_order(axes: tuple[tuple[str, int], ...], expected: tuple[str, ...]) -> None:
    mesh = WorkerMesh(axes, workers(4))

    async def follow(context: WorkerContext) -> tuple[CurrentView, list[str]]:
        port, current, came = context.port, CurrentView(context.port, mesh, []), list[str]()
        await current.begin()
        for topic in ("early", "late"):  # the second starts after all losses
            await current.subscribe(topic)
            for _ in expected:
                delivery = await port.receive(topic)
                assert delivery is not None
                came.append(delivery.message.text)
        return current, came

    def program(context: WorkerContext) -> Message:
        if context.port.name == "worker/0":
            current, came = context.perform(follow(context))
            assert came == [*expected, *expected]
            assert current.now.left == expected
            assert current.now.members == tuple(name for name in mesh.members if name not in expected)
        else:
            context.perform(wait(context))
        return Message("result")

    async def wait(context: WorkerContext) -> None:
        await context.port.receive("never", timeout=10.0)

    ending = Simulator(network="lan", faults=CRASHES).execute(Job(4, 0, program, no_service, lambda _: False), lambda event: None)
    assert ending.lost == ["worker/3", "worker/1"]
