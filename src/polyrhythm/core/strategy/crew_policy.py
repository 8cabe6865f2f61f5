"""What follows under a strategy when workers are lost or join: read off the traits and capabilities of its pieces.

Runtimes ask for the policy of a run, and `polyrhythm systems` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice, pairwise

from polyrhythm.core.protocols.traits import LOCAL, Payload
from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.strategy import Strategy

_EXCHANGES = 64
"""So many exchanges are looked at for the longest time between two: schedules that depend on the step repeat by then."""


class OnLoss(Enum):
    """What the others do when an actor is lost."""

    CONTINUE = "the others continue"
    """They are notified, and do not stop."""
    REFORM = "the others re-form"
    """They make a cut: all come to the same state, and continue as a crew of fewer members."""
    END = "the run ends"
    """It may be started again from its last checkpoint."""


@dataclass(frozen=True, slots=True)
class CrewPolicy:
    """What follows the loss of a `worker`, of the `first` one and of a `server`, and whether a worker `joins` at a cut.

    `server` is None where there is none, and nobody joins where a strategy uses one worker. `lost` is what may be lost for good at a crash,
    one sentence each, and empty where nothing is. `unsent` is the most steps of which only the worker that took them has the results. With
    notice a worker leaves at a cut, and nothing is lost.

    Examples:
        >>> CrewPolicy.of(Strategy()).worker
        <OnLoss.REFORM: 'the others re-form'>
    """

    worker: OnLoss
    first: OnLoss
    server: OnLoss | None
    joins: bool
    lost: tuple[str, ...]
    unsent: int = 0

    @staticmethod
    def of(strategy: Strategy) -> CrewPolicy:
        """The policy of a strategy."""
        levels = [level for _, exchange in strategy.exchanges for level in exchange.levels]
        served = any(level.topology.service is not None for level in levels)
        server = (OnLoss.CONTINUE if strategy.tolerates_server_loss else OnLoss.END) if served else None
        if strategy.workers(2) == 1:
            return CrewPolicy(OnLoss.END, OnLoss.END, server, False, ("everything since the last checkpoint",))
        worker = OnLoss.CONTINUE if strategy.tolerates_loss else OnLoss.REFORM
        lost = *_lost_with_worker(levels), *_lost_with_server(levels, server)
        return CrewPolicy(worker, OnLoss.REFORM, server, True, lost, _unsent(levels))

    @property
    def redone(self) -> str:
        """What is done again after the loss of a worker."""
        return _REDONE[self.worker]


_REDONE = {
    OnLoss.CONTINUE: "nothing",
    OnLoss.REFORM: "one step, the one that was interrupted",
    OnLoss.END: "everything since the last checkpoint",
}


def _lost_with_worker(levels: list[Exchange]) -> Iterator[str]:
    if steps := _unsent(levels):
        yield f"what the lost worker has computed since its last exchange: at most {steps} step{'s' * (steps > 1)}"
    if late := max(level.topology.traits.late for level in levels):
        yield f"what the lost worker has sent for sums that had not come: of at most {late} exchange{'s' * (late > 1)}"
    if any(level.agreement.codec.traits.keeps for level in levels):
        yield "one residual: what the lost worker's codec has kept to send later"
    if any(level.payload in LOCAL for level in levels):
        yield "the state of the lost worker's own optimizer"


def _unsent(levels: list[Exchange]) -> int:
    return max((_steps_between(level) for level in levels if _keeps_steps(level)), default=0)


def _lost_with_server(levels: list[Exchange], server: OnLoss | None) -> Iterator[str]:
    if server is not OnLoss.END:
        return
    rules = [type(level.agreement.rule).__name__ for level in levels if level.topology.service and level.agreement.rule is not None]
    states = "".join(f" and the state of its {name}" for name in dict.fromkeys(rules))
    yield f"with a server, its part of the weights{states} since the last checkpoint"


def _keeps_steps(level: Exchange) -> bool:
    """True if others do not have what a worker has computed: not in shared memory, nor where all wait for the gradient of each step."""
    if level.payload is Payload.NOTHING:
        return False
    return not (level.payload.is_gradient and level.agreement.conditions.waits and _steps_between(level) == 1)


def _steps_between(level: Exchange) -> int:
    """The most steps between two times at which a worker sends what it has."""
    pushes = level.agreement.conditions.pushes
    clocks = [clock for clock in islice(level.clocks(2), _EXCHANGES) if pushes(clock)]
    return max((after - before for before, after in pairwise((0, *clocks))), default=1)
