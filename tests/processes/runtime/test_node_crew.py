"""A program whose crew changes: what interrupts it, and what it keeps for the next view."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.view import NextView, View, ViewChange, ViewChanged
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.node_crew import ARRIVE, CHANGE, CLOSE, END, FINISH, HELD, HOLD, RELEASE, SETTLE, NodeCrew
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.transport.addresses import listen_locally
from polyrhythm.core.processes.transport.frame_link import Wiring

FIRST = View.of(["worker/0", "worker/1", "worker/2"])
SECOND = FIRST.without("worker/1")
THIRD = SECOND.without("worker/2")


class Scene:
    """Worker 0 of three on a node of its own, with a launcher that only notes what is sent to it."""

    def __init__(self) -> None:
        self.node = Node(Role("worker/0", bytes(32)), Wiring(), listen_locally(), lambda _: None)
        self.context = NodeContext(self.node)
        self.sent: list[Message] = []
        self.crew = self.context.crew = NodeCrew(self.node, self.context, self.sent.append, lambda view: {})
        self.node.start()

    def launch(self, message: Message) -> None:
        """The launcher sends `message`."""
        self.in_loop(lambda: self.crew.receive(message))

    def change(self, before: View, after: View, lost: bool = True) -> ViewChange:
        """The launcher announces the next view, to which all but those who leave belong."""
        change = ViewChange(before, after, frozenset(before.members) - frozenset(after.members) if lost else frozenset())
        places = (("site", "host"),) * after.size
        self.launch(Message(CHANGE, (float(after.epoch),), msgspec.json.encode(NextView(change, places)).decode()))
        return change

    def in_loop(self, call: Callable[[], None]) -> None:
        done = threading.Event()
        self.node.loop.call(lambda: (call(), done.set()))  # type: ignore[func-returns-value]
        assert done.wait(10)

    def soon(self, call: Callable[[], Any]) -> threading.Thread:
        """Call it in another thread, when this one waits."""
        thread = threading.Thread(target=lambda: (time.sleep(0.03), call()))  # type: ignore[func-returns-value]
        thread.start()
        return thread


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.node.stop()


def receive(scene: Scene, topic: str) -> str:
    """The text of the next message under a topic of the view that the program is in."""

    async def received() -> str:
        delivery = await scene.context.port.receive(topic)
        assert delivery is not None
        return delivery.message.text

    return scene.context.perform(received())


def deliver(scene: Scene, topic: str, text: str) -> None:
    scene.in_loop(lambda: scene.node.deliver(Delivery("worker/2", Message(topic, text=text))))


def test_a_loss_interrupts_what_is_waited_for_until_the_next_view_is_entered(scene: Scene) -> None:
    announcing = scene.soon(lambda: scene.change(FIRST, SECOND))
    with pytest.raises(ViewChanged) as raised:
        receive(scene, "never")
    announcing.join()
    for wait in (lambda: receive(scene, "never"), lambda: scene.context.agree({}, ""), lambda: scene.crew.cut(1)):
        with pytest.raises(ViewChanged):
            wait()
    scene.crew.enter(raised.value.change)
    deliver(scene, "1~now", "here")
    assert receive(scene, "now") == "here"
    assert scene.crew.locations(["worker/2"]) == (Location("site", "host"),)


def test_messages_of_the_next_view_that_come_early_are_kept_and_late_ones_dropped(scene: Scene) -> None:
    deliver(scene, "value", "of the first view")
    deliver(scene, "1~value", "early")
    scene.crew.enter(scene.change(FIRST, SECOND))
    deliver(scene, "value", "late")
    assert receive(scene, "value") == "early"
    deliver(scene, "1~value", "of this view")
    assert receive(scene, "value") == "of this view"


def test_who_enters_a_view_that_has_changed_again_is_interrupted_by_the_newest(scene: Scene) -> None:
    earlier = scene.change(FIRST, SECOND)
    newest = scene.change(SECOND, THIRD)
    with pytest.raises(ViewChanged) as raised:
        scene.crew.enter(earlier)
    assert raised.value.change == newest
    scene.crew.enter(newest)
    deliver(scene, "2~now", "here")
    assert receive(scene, "now") == "here"


def test_a_coroutine_that_was_begun_is_closed_and_its_error_is_not_raised_in_the_next_view(scene: Scene) -> None:
    closed = threading.Event()

    async def background() -> None:
        try:
            await scene.context.port.receive("never")
        finally:
            closed.set()

    scene.context.begin(background(), 0.0)
    scene.in_loop(lambda: None)
    change = scene.change(FIRST, SECOND)
    assert closed.is_set()
    scene.context.begin(background(), 0.0)  # never run
    scene.crew.enter(change)
    deliver(scene, "1~now", "here")
    assert receive(scene, "now") == "here"


def test_at_a_cut_a_program_waits_for_the_step_and_then_for_the_others(scene: Scene) -> None:
    assert scene.crew.cut(4) is None
    scene.launch(Message(HOLD, (0.0,)))
    assert (scene.sent[-1].topic, scene.sent[-1].numbers) == (HELD, (0.0, 4.0))
    settling = scene.soon(lambda: scene.launch(Message(SETTLE, (0.0, 6.0))))
    assert scene.crew.cut(5) == 6
    settling.join()
    announcing = scene.soon(lambda: scene.change(FIRST, SECOND, lost=False))
    change = scene.crew.change()
    announcing.join()
    assert change is not None
    assert (change.after, scene.sent[-1].topic) == (SECOND, ARRIVE)
    scene.crew.enter(change)
    scene.launch(Message(HOLD, (1.0,)))
    assert scene.sent[-1].numbers == (1.0, 5.0), "the steps of the view before count"


def test_who_is_released_goes_on_without_a_change_also_on_its_way_to_the_cut(scene: Scene) -> None:
    scene.launch(Message(HOLD, (0.0,)))
    releasing = scene.soon(lambda: scene.launch(Message(RELEASE, (0.0,))))
    assert scene.crew.cut(1) is None
    releasing.join()
    assert scene.crew.change() is None
    assert scene.crew.cut(2) is None


def test_who_takes_no_more_steps_comes_to_a_cut_that_others_wait_at(scene: Scene) -> None:
    scene.launch(Message(HOLD, (0.0,)))
    assert not scene.crew.finish()
    assert scene.sent[-1].topic == CLOSE
    settling = scene.soon(lambda: scene.launch(Message(SETTLE, (0.0, 6.0))))
    assert scene.crew.cut(3) == 6
    settling.join()
    releasing = scene.soon(lambda: scene.launch(Message(RELEASE, (0.0,))))
    assert scene.crew.change() is None
    releasing.join()
    ending = scene.soon(lambda: scene.launch(Message(END, (0.0,))))
    assert scene.crew.finish()
    ending.join()
    assert scene.sent[-1].topic == FINISH


def test_a_loss_that_the_others_survive_is_noticed_in_the_view_that_was_announced_last(scene: Scene) -> None:
    change = scene.change(FIRST, SECOND)
    scene.in_loop(lambda: scene.node.lose("worker/2"))
    scene.crew.enter(change)
    assert receive(scene, "lost") == "worker/2"
