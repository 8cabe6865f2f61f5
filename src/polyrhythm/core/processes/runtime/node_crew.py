"""A program's side of the changes of its crew, in a process of its run: the authority is in the process that started the run.

`spawn.child` makes a `NodeCrew` where the crew may change, gives it the launcher's messages on the crew, and sends those of `send`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import VIEW, Delivery, Message
from polyrhythm.core.kernel.view import NextView, ViewChange, ViewChanged
from polyrhythm.core.processes.collectives.reducer import GroupReducer
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.program_queue import ProgramQueue
from polyrhythm.core.processes.runtime.stop_point import StopPoint

CREW = "crew/"
"""The prefix of the topics of these messages."""
ARRIVE, ENTERED, FINISH, CLOSE, HELD = CREW + "arrive", CREW + "entered", CREW + "finish", CREW + "close", CREW + "held"
HOLD, SETTLE, RELEASE, CHANGE, END = CREW + "hold", CREW + "settle", CREW + "release", CREW + "change", CREW + "end"
"""From a worker: it waits at the cut; it has taken a step in this view; it takes no more steps; the same, at a cut; it has taken so many.
To it: hold; settle; continue without; the next view; nobody takes any more steps.

The first number is the epoch of the view that a message is about.
"""

Share = Callable[[NextView], Mapping[str, GroupReducer]]
"""Opens the memory that the members of a view share."""


class NodeCrew:
    """The side of the program on `node`, whose waits `context` records. Implements `kernel.job.CrewSide`."""

    changes = True

    def __init__(self, node: Node, context: NodeContext, send: Callable[[Message], None], share: Share) -> None:
        self._node = node
        self._context = context
        self._send = send
        self._share = share
        self._point = StopPoint()
        self._views: dict[int, NextView] = {}
        self._places: dict[str, Location] = {}
        self._admission: Completion | None = None
        self._finishing: Completion | None = None
        self._over = False
        self._entered = 0

    @property
    def stepped(self) -> bool:
        """True if the program has taken a step with others, unless it was in the run's first view."""
        return self._entered > 0

    # In the program's thread

    def cut(self, clock: int) -> int | None:
        """Wait until all workers have said how far they are, if somebody is to join or to leave."""
        point = self._point  # before the problem is looked at: an interruption that comes afterwards lets this one fail
        if self._node.waits.problem is not None:
            raise self._node.waits.problem
        if self._node.actor.epoch != self._entered:
            self._node.loop.call(self._step_taken)
        return point.look(clock) or None

    def change(self) -> ViewChange | None:
        """Wait until all have come to the cut."""
        found: ViewChange | None = self._context.waited(lambda: self._node.wait_for("the others at the cut of the crew", self._arrive))
        return found

    def enter(self, change: ViewChange) -> None:
        """Continue in the next view; raises ViewChanged if there is a newer one already."""
        self._node.sums.stop()  # nobody writes into what is to be summed any more
        entered = Completion()
        self._node.loop.call(lambda: self._enter(change, entered))
        entered.wait()

    def locations(self, members: Sequence[str]) -> tuple[Location, ...]:
        return tuple(self._places[name] for name in members)

    def finish(self) -> bool:
        """Wait until no worker takes any more steps."""
        ended: bool = self._context.waited(lambda: self._node.wait_for("the others to take their last step", self._finish))
        return ended

    # In the loop's thread

    def _step_taken(self) -> None:
        if self._node.actor.epoch != self._entered:
            self._entered = self._node.actor.epoch
            self._send(Message(ENTERED, (float(self._entered),)))

    def receive(self, message: Message) -> None:
        """A message of the launcher about the crew."""
        match message.topic:
            case "crew/hold":
                self._send(Message(HELD, (message.numbers[0], float(self._point.hold()))))
            case "crew/settle":
                self._point.settle(int(message.numbers[1]))
            case "crew/release":
                self._over = True
                self._admit(None)
                self._point.settle(0)
                self._point = StopPoint()
            case "crew/end":
                finishing, self._finishing = self._finishing, None
                if finishing is not None:
                    finishing.finish(True, None)
            case "crew/change":
                self._changed(msgspec.json.decode(message.text, type=NextView))

    def _changed(self, found: NextView) -> None:
        change, name = found.change, self._node.port.name
        lose(self._node, change)
        if not (change.before.present(name) or change.after.present(name)):
            return
        self._node.epoch = change.after.epoch
        self._views[change.after.epoch] = found
        before, self._point, self._over = self._point, StopPoint(self._point.clock), False
        if change.lost:
            self._interrupt(ViewChanged(change))
            before.fail(ViewChanged(change))
        else:
            self._admit(change)

    def _interrupt(self, interruption: ViewChanged) -> None:
        node, self._admission, self._finishing = self._node, None, None
        if node.failure is None:
            node.break_off(interruption)
            node.queue.close()
            node.actor.interrupt()

    def _arrive(self, completion: Completion) -> None:
        if self._over:
            completion.finish(None, None)
        elif not completion.finished:  # else it was interrupted meanwhile
            self._admission = completion
            self._send(Message(ARRIVE, (float(self._node.actor.epoch),)))

    def _finish(self, completion: Completion) -> None:
        if completion.finished:  # it was interrupted meanwhile
            return
        if self._point.held:
            self._send(Message(CLOSE, (float(self._node.actor.epoch),)))
            completion.finish(False, None)
        else:
            self._finishing = completion
            self._send(Message(FINISH, (float(self._node.actor.epoch),)))

    def _admit(self, change: ViewChange | None) -> None:
        admission, self._admission = self._admission, None
        if admission is not None:
            admission.finish(change, None)

    def _enter(self, change: ViewChange, entered: Completion) -> None:
        node, epoch = self._node, change.after.epoch
        if node.failure is not None or epoch < max(self._views):
            entered.finish(None, node.waits.problem or ViewChanged(self._views[max(self._views)].change))
            return
        try:
            found = self._views[epoch]
            self._views = {epoch: found}
            self._places = {name: Location(*place) for name, place in zip(change.after.members, found.locations, strict=True)}
            node.waits.problem = None
            node.queue.close()
            node.queue = ProgramQueue(node.actor)
            node.actor.enter(epoch)
            node.port.enter(epoch)
            node.agreement.drop()
            node.reducers = self._share(found)
        except Exception as problem:  # memory that cannot be opened
            entered.finish(None, problem)
        else:
            entered.finish(None, None)


def lose(node: Node, change: ViewChange) -> None:
    """Send nothing more to those who are lost, whose connections may end in any way."""
    for name in change.lost:
        node.peers.lose(name)


def follow(node: Node, message: Message) -> None:
    """Notify the actor of a server of the next view."""
    if message.topic == CHANGE:
        change = msgspec.json.decode(message.text, type=NextView).change
        lose(node, change)
        node.epoch = change.after.epoch
        node.deliver(Delivery(node.port.name, Message(VIEW, text=message.text)))
