from collections.abc import Callable
from typing import Any

import pytest
import torch

from polyrhythm.core.kernel.effects import Compute, Effect, Flush, NativeReduce, Receive, Send, Sleep, Spawn
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.processes.runtime.executor import ActorExecutor
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.errors import DeadlockError
from polyrhythm.topology import Ring


class Outbox:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.draining: list[Callable[[], None]] = []
        self.rated: list[str] = []

    def send(self, to: str, message: Message) -> None:
        self.sent.append((to, message.topic))

    def rate(self, to: str = "") -> float:
        self.rated.append(to)
        return 8.0

    def when_drained(self, call: Callable[[], None], to: str = "") -> None:
        self.draining.append(call)


class Scene:
    def __init__(self) -> None:
        self.loop, self.post = EventLoop(), Outbox()
        self.results: list[Any] = []
        self.errors: list[BaseException] = []
        self.actor = ActorExecutor("worker/0", self.loop, self.post, lambda effect, done: False, self.errors.append)

    def start(self, coroutine: Any) -> None:
        self.actor.start("program", coroutine, lambda value, error: self.results.append(error or value))

    def deliver(self, topic: str, text: str = "") -> None:
        self.actor.deliver(Delivery("worker/1", Message(topic, text=text)))

    def run(self, seconds: float) -> None:
        self.loop.after(seconds, self.loop.stop)
        self.loop.run()


@pytest.fixture
def scene() -> Any:
    scene = Scene()
    yield scene
    scene.actor.close()
    scene.loop.close()


async def receive(topic: str, timeout: float | None = None, sender: str = "") -> Any:
    found = await Receive(topic, sender, timeout)
    return found and found.message.text


def test_messages_wait_in_their_mailbox_and_come_in_order(scene: Scene) -> None:
    scene.deliver("a", "1")
    scene.deliver("b", "2")
    scene.deliver("a", "3")
    for topic in "aba":
        scene.start(receive(topic))
    assert scene.results == ["1", "2", "3"]


def test_who_waits_first_is_served_first(scene: Scene) -> None:
    scene.start(receive("a"))
    scene.start(receive("a"))
    scene.deliver("a", "1")
    scene.deliver("a", "2")
    assert scene.results == ["1", "2"]


def test_a_timeout_of_zero_only_looks(scene: Scene) -> None:
    scene.start(receive("a", 0))
    scene.deliver("a", "1")
    scene.start(receive("a", 0))
    assert scene.results == [None, "1"]


def test_a_timeout_ends_the_waiting_and_the_message_stays_for_the_next(scene: Scene) -> None:
    scene.start(receive("a", 0.001))
    scene.run(0.01)
    scene.deliver("a", "late")
    scene.start(receive("a"))
    assert scene.results == [None, "late"]


def test_a_message_in_time_cancels_the_timeout(scene: Scene) -> None:
    scene.start(receive("a", 0.001))
    scene.deliver("a", "1")
    scene.run(0.005)
    assert scene.results == ["1"]


def test_spawned_coroutines_run_concurrently_and_end_with_the_actor(scene: Scene) -> None:
    async def forward() -> None:
        while True:
            await Receive("in")
            await Send("worker/1", Message("out"))

    async def body() -> str:
        await Spawn("forward", forward())
        await Compute(1e9)
        await Sleep(0.001)
        return "done"

    scene.start(body())
    scene.deliver("in")
    scene.run(0.01)
    scene.deliver("in")
    assert scene.results == ["done"]
    scene.actor.close()
    scene.deliver("in")
    assert scene.post.sent == [("worker/1", "out")] * 2


def test_an_error_of_a_spawned_coroutine_is_not_lost(scene: Scene) -> None:
    async def wrong() -> None:
        raise ArithmeticError("spawned")

    async def body() -> None:
        await Spawn("wrong", wrong())

    scene.start(body())
    assert [str(error) for error in scene.errors] == ["spawned"]


def test_a_flush_waits_for_what_was_sent(scene: Scene) -> None:
    async def body() -> str:
        await Send("worker/1", Message("out"))
        await Flush()
        return "flushed"

    scene.start(body())
    scene.run(0.001)
    assert scene.results == []
    scene.post.draining[0]()
    scene.run(0.001)
    assert scene.results == ["flushed"]


def test_the_system_is_queried_for_a_rate_only_by_those_who_want_it(scene: Scene) -> None:
    async def body() -> tuple[float | None, float | None]:
        return await Flush("worker/1"), await Flush("worker/2", rated=True)

    scene.start(body())
    scene.post.draining[0]()
    scene.run(0.001)
    scene.post.draining[1]()
    scene.run(0.001)
    assert (scene.results, scene.post.rated) == ([(None, 8.0)], ["worker/2"])


def test_waiting_for_one_who_has_ended_is_an_error_that_names_both(scene: Scene) -> None:
    scene.deliver("a", "last")
    scene.start(receive("b", sender="worker/1"))
    scene.actor.peer_gone("worker/1", "has ended")
    scene.start(receive("a", sender="worker/1"))
    scene.start(receive("a", sender="worker/1"))
    first, second, third = scene.results
    assert isinstance(first, DeadlockError)
    assert str(first) == "worker/0 waits for 'b' from worker/1, which has ended."
    assert second == "last"
    assert isinstance(third, DeadlockError)


def test_an_actor_stands_still_only_when_all_its_coroutines_wait_for_messages(scene: Scene) -> None:
    scene.start(receive("a", sender="worker/1"))
    assert scene.actor.standstill() == ["worker/0 waits for 'a' from worker/1"]
    scene.start(receive("b", timeout=10))
    assert scene.actor.standstill() == []


def test_an_actor_whose_coroutine_adds_up_stands_still_only_when_the_others_wait_too(scene: Scene) -> None:
    async def add() -> Any:
        return await NativeReduce(torch.ones(1), "1", Group.of_workers(2, 0), Ring())

    async def nap() -> None:
        await Sleep(60.0)

    requested: list[Callable[[Any, BaseException | None], None]] = []
    actor = scene.actor = ActorExecutor(
        "worker/0", scene.loop, scene.post, lambda effect, done: requested.append(done) is None, scene.errors.append
    )
    scene.start(add())
    assert actor.standstill(["in a sum"]) == ["in a sum"]
    assert actor.standstill() == []  # the sum is there, and about to be taken
    scene.start(receive("a", sender="worker/1"))
    assert actor.standstill(["in a sum"]) == ["in a sum", "worker/0 waits for 'a' from worker/1"]
    scene.start(nap())
    assert actor.standstill(["in a sum"]) == []
    requested[0]("total", None)
    assert scene.results == ["total"]


def test_an_effect_that_cannot_be_had_is_an_error_of_the_coroutine(scene: Scene) -> None:
    class Unknown(Effect[None]):
        __slots__ = ()

    async def body() -> str:
        try:
            await Unknown()
        except TypeError:
            return "caught"
        return "not caught"

    scene.start(body())
    assert scene.results == ["caught"]
