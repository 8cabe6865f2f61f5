"""One worker's side of a table: reads under the consistency's bound, and its own writes on top of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import ViewChange, ViewChanged
from polyrhythm.core.protocols.common_state import Donor
from polyrhythm.core.protocols.consistency import Conditions
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.tables.row_cache import RowCache
from polyrhythm.core.tables.shape import TableShape
from polyrhythm.core.tables.table_requests import TableRequests, TableResponse
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CheckpointError, WorkloadError, diverged


class OwnUpdate(NamedTuple):
    """An update that this worker sent when it ended `clock`; what it `released` then, as rows and a packet, or nothing."""

    clock: int
    rows: Tensor
    packet: Packet
    released: Packet = ()


class TableCrew(NamedTuple):
    """The workers and servers of a table: all workers, as this one sees them, the servers, and the conditions of reads."""

    workers: Group
    servers: tuple[str, ...]
    conditions: Conditions


class TableState:
    """One worker's `CommonState` of a table. `clock` counts the periods that this worker has ended.

    Its updates since then are `pending`, and are in the rows of its cache too. A row that is read anew comes from the server with those of
    the worker's own updates that are visible there, and gets the others on top: `sent` has those that may not be visible, where several
    workers' updates are merged together. So each update counts once.
    """

    def __init__(self, name: str, shape: TableShape, crew: TableCrew, context: WorkerContext, port: Port, bound: int | None) -> None:
        self.name = name
        self.shape = shape
        self.crew = crew
        self.context = context
        self.requests = TableRequests(shape, crew.servers, port)
        self.cache = RowCache(shape, bound)
        self.pending, self.released = (shape.kind.store(shape.rows, shape.columns) for _ in range(2))
        self.adoptions = 0
        self.sent: deque[OwnUpdate] = deque()
        self.clock = 0
        self.finished = False
        self.content: Packet | None = None
        self.unseen: deque[OwnUpdate] = deque()
        """The updates that some server may not have, in a crew that may change."""
        self.reform: Callable[[ViewChange], bool] = _cannot_reform

    def get(self, rows: Tensor) -> Tensor:
        """The rows (n, columns) as this worker may see them; waits while its view is too old."""
        self._refuse_if_finished("get")
        wanted = rows.unique()  # type: ignore[no-untyped-call]
        while len(stale := self.cache.stale(wanted, self.clock, self.crew.conditions.must_read)):
            try:
                answers = self.context.perform(self.requests.read(self.clock, stale, self.cache.since))
            except ViewChanged as interruption:
                self.reform(interruption.change)
                continue
            for answer in answers:
                self._take_over(answer)
            break
        packet = self.cache.use(wanted)
        if len(wanted) != len(rows) or not torch.equal(wanted, rows):
            packet = self.shape.kind.take(packet, torch.searchsorted(wanted, rows))
        return self.shape.kind.unpacked(packet, self.shape.columns)

    def inc(self, rows: Tensor, values: Tensor) -> None:
        """Add to the rows: visible to this worker now, to others after it ends this clock."""
        self._refuse_if_finished("inc")
        packet = self.shape.kind.packed(values, self.shape.columns)
        if len(values) != len(rows):
            raise WorkloadError(f"{len(values)} rows of values were given for {len(rows)} rows of the table: give as many of each.")
        self.pending.add(rows, packet)
        held = self.cache.store.holds(rows).nonzero().view(-1)
        if len(held):
            self.cache.store.add(rows[held], self.shape.kind.take(packet, held))

    def release(self, rows: Tensor, values: Tensor) -> None:
        """Give up so much of what this worker has added or adopted, when it ends this clock."""
        self._refuse_if_finished("release")
        self.released.add(rows, self.shape.kind.packed(values, self.shape.columns))

    def adopt(self, rows: Tensor, values: Tensor) -> Tensor:
        """Take over what nobody has of `rows`, each given once, as near as possible to `values`: what this worker gets (n, columns)."""
        self._refuse_if_finished("adopt")
        self.adoptions += 1
        packet = self.shape.kind.packed(values, self.shape.columns)
        while True:
            try:
                answers = self.context.perform(self.requests.adopt(self.adoptions, rows, packet))
                break
            except ViewChanged as interruption:
                self.reform(interruption.change)
        found = torch.zeros(len(rows), self.shape.columns, dtype=self.shape.kind.dtype)
        for places, part in answers:
            found[places] = self.shape.kind.flat(part, self.shape.columns).view(-1, self.shape.columns)
        return found

    def step(self, samples: int) -> None:
        """End a clock: send the updates made in it."""
        self._refuse_if_finished("clock")
        self.clock += 1
        rows = self.pending.held
        packet = self.pending.read(rows)
        values = packet[-1]
        if values.is_floating_point() and not bool(torch.isfinite(values).all()):
            raise diverged(f"What {self.context.port.name} adds to the table {self.name!r} is not finite at clock {self.clock}")
        self.pending.keep(rows[:0])
        update = OwnUpdate(self.clock, rows, packet, self._take_released())
        if self._may_be_invisible(self.clock):
            self.sent.append(update)
        while self.sent and not self._may_be_invisible(self.sent[0].clock):
            self.sent.popleft()
        self._push(update)

    def _take_released(self) -> Packet:
        if not len(rows := self.released.held):
            return ()
        released = (rows, *self.released.read(rows))
        self.released.keep(rows[:0])
        return released

    def _push(self, update: OwnUpdate) -> None:
        """Send an update; where the crew may change it is kept until every server has shown that it has it, and sent again after a loss."""
        if self.context.crew.changes:
            self.unseen.append(update)
            while self.unseen and self.unseen[0].clock <= min(self.requests.visible):
                self.unseen.popleft()
        try:
            self.context.perform(self.requests.push(*update))
        except ViewChanged as interruption:
            self.reform(interruption.change)

    def regroup(self, crew: TableCrew, port: Port, state: StateTree, own: bool, left: Sequence[StateTree]) -> None:
        """Continue among other workers, with what the servers have kept; they take nothing twice."""
        self.crew, self.requests = crew, TableRequests(self.shape, crew.servers, port)
        self.cache = RowCache(self.shape, self.cache.bound)
        self.take_over(state, own, left)
        for update in self.unseen:
            self.context.perform(self.requests.push(*update))

    def finish(self) -> None:
        """Send the rest; worker 0 then gets the final rows, when all workers have ended."""
        if len(self.pending.held) or len(self.released.held):
            self.step(0)
        self.context.stopped(self.clock)
        self.finished = True
        self.context.perform(self.requests.end())
        if self.crew.workers.is_first:
            self.content = self._joined(self.context.perform(self.requests.content()))

    def drain(self, step: int) -> str:
        problem: str = self.context.perform(self.requests.drain(step))
        return problem

    def export(self) -> StateTree:
        """The cache is left out, because its rows can be read again."""
        rows = self.pending.held
        return {
            "shape": str(self.shape),
            "clock": self.clock,
            "visible": self.requests.visible,
            "rows": rows,
            "packet": self.pending.read(rows),
            "released": (self.released.held, self.released.read(self.released.held)),
            "adoptions": self.adoptions,
            "sent": [tuple(each) for each in self.sent],
        }

    def restore(self, state: StateTree) -> None:
        if state["shape"] != str(self.shape):
            raise CheckpointError(
                f"The checkpoint has a table {self.name!r} of {state['shape']}, and worker.table was given {self.shape}: resume with the "
                "training function that wrote it."
            )
        self.clock, self.requests.visible = state["clock"], state["visible"]
        self.pending.put(state["rows"], state["packet"])
        self.released.put(*state["released"])
        self.adoptions = state["adoptions"]
        self.sent = deque(OwnUpdate(*each) for each in state["sent"])

    def take_over(self, state: StateTree, own: bool, left: Sequence[StateTree] = (), donor: Donor | None = None) -> None:
        """Without the updates of the worker that it joins, which are sent by that one; with those of workers that have left."""
        none = {name: each for name, each in self.export().items() if name in ("rows", "packet", "released", "adoptions")}
        none["sent"] = []
        self.restore(state if own else {**state, **none})
        for each in left:
            self.pending.add(each["rows"], each["packet"])

    def _may_be_invisible(self, clock: int) -> bool:
        """True if a server may answer the next read without the update that this worker sent at `clock`."""
        rule = self.crew.conditions
        waits_for_others = rule.quorum(self.crew.workers.size) > 1 and clock > min(self.requests.visible)
        return waits_for_others and rule.may_proceed(self.clock, clock - 1)

    def _take_over(self, answer: TableResponse) -> None:
        """Put the rows of a response into the cache, with own updates on top that are not in them."""
        self.cache.learn(answer.asked, self.clock, answer.status)
        self.cache.store.put(answer.rows, answer.packet)
        for update in self.sent:
            if update.clock > answer.status.own:
                self._add_again(update.rows, update.packet, answer.rows)
        rows = self.pending.held
        if len(rows):
            self._add_again(rows, self.pending.read(rows), answer.rows)

    def _add_again(self, rows: Tensor, packet: Packet, among: Tensor) -> None:
        places = torch.isin(rows, among).nonzero().view(-1)
        self.cache.store.add(rows[places], self.shape.kind.take(packet, places))

    def _joined(self, parts: list[Packet]) -> Packet:
        store = self.shape.kind.store(self.shape.rows, self.shape.columns)
        for k, packet in enumerate(parts):
            store.put(self.shape.kept_by(k, len(parts)), packet)
        return store.read(self.shape.every)

    def _refuse_if_finished(self, call: str) -> None:
        if self.finished:
            raise WorkloadError(f"{call} was called on the table {self.name!r} after worker.finish(): the run is over.")


def _cannot_reform(change: ViewChange) -> bool:
    """No crew changes: nothing interrupts a read."""
    raise AssertionError("a crew that is fixed has changed")
