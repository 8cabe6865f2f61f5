"""Agents of hosts that record their orders, and say what a test has them say."""

from __future__ import annotations

from dataclasses import dataclass, field

from polyrhythm.cluster import BinPack, FirstIn, GangPlacement, Preemption, SchedulerConfig
from polyrhythm.tools.scheduling.news import AgentNews, StartWorker, StopWorker

CONFIG = SchedulerConfig(FirstIn(), GangPlacement(BinPack()), preemption=Preemption())


@dataclass
class RecordedAgent:
    """An agent that records its orders; `says` is what it says next. It takes no order when it is not `obedient`."""

    name: str
    says: list[AgentNews] = field(default_factory=list)
    orders: list[StartWorker | StopWorker] = field(default_factory=list)
    obedient: bool = True
    is_there: bool = True
    has_news: bool = True
    was_heard: bool = True
    lease: float = 0.0

    def news(self) -> list[AgentNews]:
        """What it says."""
        said, self.says = self.says, []
        return said

    def order(self, order: StartWorker | StopWorker) -> bool:
        """Record it."""
        if self.obedient:
            self.orders.append(order)
        return self.obedient

    def ordered(self, kind: type[StartWorker] | type[StopWorker]) -> list[str]:
        """The names of the workers that it was to start, or to stop."""
        return [each.name for each in self.orders if type(each) is kind]

    def give_up(self) -> float:
        """End the connection with it."""
        self.obedient = False
        return self.lease

    def close(self) -> None:
        """End it."""
        self.is_there = False
