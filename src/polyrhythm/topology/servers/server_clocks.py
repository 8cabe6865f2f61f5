"""The clocks of a server's workers, and its responses to those that may continue."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import NamedTuple

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.state import admitted
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.servers.server_records import AwaitHeadStart, Fetch, Push, Wanted


class Released(NamedTuple):
    """A worker that may continue, and the version that it need not be sent again (-1: none)."""

    name: str
    known: int


class ServerClocks:
    """`merged` are the latest merged steps by worker: infinite for one that is done; one that was lost is not there. `pushed` have come.

    Responses wait in `waiting` until their worker may continue, with its clock and the version that it need not be sent again; in
    `beginning` until the first workers have trained alone. `times` are the pushes after the latest step, `repeated` those that may come
    again. `ended` are those that are done, in the order in which they said so.
    """

    def __init__(self, workers: tuple[str, ...], consistency: Consistency) -> None:
        self.workers = workers
        self.conditions = consistency.conditions
        self.chooses = consistency.traits.chooses
        self.merged = dict.fromkeys(workers, 0.0)
        self.pushed = dict.fromkeys(workers, 0.0)
        self.times = dict.fromkeys(workers, 0)
        self.repeated: dict[str, int] = {}
        self.waiting: dict[str, tuple[int, int]] = {}
        self.beginning: dict[str, AwaitHeadStart] = {}
        self.ended: list[str] = []

    @property
    def slowest(self) -> float:
        """The least clock of a worker whose contribution has been merged; infinite where all are done."""
        return min(self.merged.values(), default=math.inf)

    @property
    def all_ended(self) -> bool:
        """True if every worker that remains is done."""
        return len(self.ended) == len(self.merged)

    @property
    def stuck(self) -> bool:
        """True if no worker can push anything before more is merged, under a rule that lets workers run ahead of each other.

        In lockstep this happens only where workers take unequally many steps, which is an error there.
        """
        running = [self.pushed[name] for name, clock in self.merged.items() if clock < math.inf]
        may_proceed = self.conditions.may_proceed
        return bool(running) and may_proceed(1, 0) and not any(may_proceed(int(clock), self.slowest) for clock in running)

    def all_wait(self, drained: Collection[str]) -> bool:
        """True if workers choose their steps and all wait that are not done and not `drained`, and nobody would come to release them.

        That happens at the end of a round of all, after the workers have changed.
        """
        if not self.chooses:
            return False
        running = [name for name, clock in self.merged.items() if clock < math.inf and name not in drained]
        held = [name for name in running if name in self.waiting and not self.conditions.may_proceed(self.waiting[name][0], self.slowest)]
        return bool(running) and len(held) == len(running)

    def lose(self, name: str) -> None:
        """A worker is gone."""
        for known in (self.merged, self.pushed, self.waiting, self.beginning):
            known.pop(name, None)
        if name in self.ended:
            self.ended.remove(name)

    def end(self, name: str) -> None:
        """A worker has sent its last contribution."""
        self.merged[name] = self.pushed[name] = math.inf
        self.ended.append(name)

    def take(self, name: str, request: Push | Fetch | AwaitHeadStart) -> None:
        """A worker has pushed, or waits for a response, or both."""
        if isinstance(request, AwaitHeadStart):
            self.beginning[name] = request
            return
        self.wait(name, request)
        if isinstance(request, Push):
            self.times[name] = self.times[name] + 1 if request.clock <= self.pushed[name] else 1
            self.pushed[name] = max(self.pushed[name], float(request.clock))

    def counts(self, name: str) -> bool:
        """True if a contribution that waits is to be merged: in lockstep not that of a lost worker, whose step nobody has completed."""
        return name in self.merged or self.conditions.may_proceed(1, 0)

    def wait(self, name: str, request: Push | Fetch) -> None:
        """A worker waits for a response, if it wants one."""
        if request.wanted is not Wanted.NOTHING:
            self.waiting[name] = (request.clock, request.version if request.wanted is Wanted.NEWER else -1)

    def repeats(self, name: str, clock: int) -> bool:
        """True if a push after step `clock` has come already, before the crew changed: its worker was interrupted, and sends it again."""
        if clock < self.pushed[name] and name in self.repeated:
            return True
        if clock > self.pushed[name]:
            self.repeated.pop(name, None)
        left = self.repeated.get(name, 0)
        if left:
            self.repeated[name] = left - 1
        return left > 0

    def merge(self, name: str, clock: int) -> None:
        """A worker's contribution of step `clock` has been merged."""
        if name in self.merged:  # not back from infinity: a worker may be done before its last group is full
            self.merged[name] = max(self.merged[name], float(clock))

    def pass_over(self, clock: int, group: Group) -> None:
        """Contributions have been merged of which the latest is of step `clock`: workers that skip this step count as merged too.

        Only where workers choose their steps.
        """
        for rank, name in enumerate(group.members):
            if not self.conditions.takes_part(clock, rank, group):
                self.merge(name, clock)

    def pass_round(self, group: Group) -> None:
        """Nobody can complete the round that the slowest waits for: all workers count as merged."""
        for name in group.members:
            self.merge(name, min(clock for clock, _ in self.waiting.values()))

    def release(self, allowed: Callable[[int], bool]) -> list[Released]:
        """Remove and return those that the consistency lets continue, if `allowed` at their clock, in the order of their requests."""
        released = [Released(name, -1) for name, begin in self.beginning.items() if self._trained_alone(begin)]
        for name, (clock, known) in self.waiting.items():
            if allowed(clock) and self.conditions.may_proceed(clock, self.slowest):
                released.append(Released(name, known))
        for name, _ in released:
            self.beginning.pop(name, None)
            self.waiting.pop(name, None)
        return released

    def _trained_alone(self, begin: AwaitHeadStart) -> bool:
        return all(self.pushed[name] >= begin.clock for name in self.workers[: begin.workers] if name in self.pushed)

    def export(self) -> StateTree:
        """The state for a checkpoint, when nobody waits."""
        several = {name: times for name, times in self.times.items() if times > 1}
        return {"merged": self.merged, "pushed": self.pushed, **({"times": several} if several else {})}

    def restore(self, state: StateTree) -> None:
        """Continue with the workers that are still there; others count as if they had always been at the slowest clock."""
        self.merged, self.pushed = (admitted(state[each], self.workers, 0.0) for each in ("merged", "pushed"))
        several = state.get("times", {})
        self.times = {name: several.get(name, 1) if name in state["pushed"] else 0 for name in self.workers}
        self.repeated = dict(self.times)
