"""A plan: the answer of a search as data, which the terminal, the page and `--json` show. The planner makes it; `verify` corrects it."""

from __future__ import annotations

from typing import Any

import msgspec

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.chosen_machines import EVERY, ChosenMachines
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.proxy.proxy_plan import ProxyPlan

INTERRUPTED = "interrupted: what was known by then"
"""Why a search ended that was stopped from outside."""


class Waits(msgspec.Struct, frozen=True):
    """The parts of the time to the target; they add up to 1.

    `compute` is computing, and waiting for those that compute; `latency` and `bandwidth` what a network without them would save.
    `staleness` is the part that goes into samples beyond the fewest that any candidate needed: what old, rounded or local updates and
    large batches cost.
    """

    compute: float
    latency: float
    bandwidth: float
    staleness: float

    @property
    def most(self) -> str:
        """The name of the largest part."""
        parts = {name: getattr(self, name) for name in self.__struct_fields__}
        return max(parts, key=parts.__getitem__)


class CrewRisk(msgspec.Struct, frozen=True):
    """What follows for a choice when workers are lost or join.

    `worker`, `first` and `newcomer` are seconds for which the others stand still: after a lost worker, a lost first worker, and for one
    that joins; None where the run ends. Those in `measured` are from short runs in virtual time, the others by formula. `after` is what the
    others do after a loss, `redone` what is done again, `lost` what may be lost for good, and `obstacle` why a short run failed.
    `interrupted` is the predicted time to the target with the plan's interruptions, None without any; infinite where they leave no time.
    """

    worker: float | None
    first: float | None
    newcomer: float | None
    measured: list[str]
    after: str
    redone: str
    lost: list[str]
    obstacle: str = ""
    interrupted: float | None = None


class PresentAnswer(msgspec.Struct, frozen=True):
    """The present answer of a search that goes on: a candidate's name, the virtual seconds and the cost to the target.

    `probability` is that of no other costing less by more than a few per cent; it was so `after` seconds of the search.
    """

    name: str
    seconds: float
    cost: float
    probability: float
    after: float


class Choice(msgspec.Struct, frozen=True):
    """One way of training, and what is predicted of it.

    `reached` of `seeds` seeds came to the target; none where the prediction extrapolates an early curve. `seconds`, `nbytes` and `samples`
    are those until the target, of all workers; `cost` is by the plan's objective. `quality` is the best value of the metric, `shortfall`
    how much worse that is than the best of all candidates (null where they are not compared), `memory` the bytes of one worker (null where
    unknown), `money` null without prices, `energy` in joules. `risks` are factors of the time to the target, null where a run fails;
    `crew` is what follows when workers are lost or join. `waits` null where it was not measured.
    `corrected` is the factor by which measured runs changed the seconds; `executed` is a run of it
    as its command has it. `machines` are those that it uses, where it leaves some out. `probability` is that of no other costing less by
    more than a few per cent, null where that is not known. `like` names the choice whose curve it has under `shared` of its seeds, where
    it is equal to that in lockstep and was only timed for a few steps.
    """

    name: str
    system: str
    workers: int
    options: dict[str, Any]
    settings: dict[str, Any]
    reached: int
    seeds: int
    seconds: Interval
    nbytes: float
    samples: float
    cost: float
    quality: float | None
    shortfall: float | None
    memory: int | None
    money: float | None
    energy: float
    command: str
    code: str
    rehearsal: str
    waits: Waits | None = None
    risks: dict[str, float | None] = {}
    crew: CrewRisk | None = None
    corrected: float | None = None
    executed: Execution | None = None
    machines: ChosenMachines = EVERY
    probability: float | None = None
    like: str = ""
    shared: int = 0

    @property
    def candidate(self) -> Candidate:
        """What was run: the same settings, on the same machines."""
        return Candidate(self.system, self.workers, tuple(self.options.items()), tuple(self.settings.items()), self.machines)

    @property
    def strategy(self) -> Strategy:
        """The strategy to give to `run`."""
        return self.candidate.strategy

    @property
    def extrapolated(self) -> bool:
        """True if no run of it came to the target."""
        return self.reached == 0

    @property
    def sure(self) -> bool:
        """True if every run of it came to the target."""
        return 0 < self.reached == self.seeds

    @property
    def is_alone(self) -> bool:
        """True if it is one worker without others."""
        return self.workers == 1


class Execution(msgspec.Struct, frozen=True):
    """Runs of a choice as its command has it, under `seeds` that the search had not used.

    `seconds` are those of each to the target, None where it was not reached, for the reason `missed`; `expected` were the bounds before.
    """

    seeds: list[int]
    seconds: list[float | None]
    expected: Interval
    missed: str = ""

    @property
    def inside(self) -> bool:
        """True if every run came to the target between the bounds."""
        return all(each is not None and self.expected.low <= each <= self.expected.high for each in self.seconds)


class Refusal(msgspec.Struct, frozen=True):
    """A candidate that was ruled out, and why."""

    name: str
    reason: str


class Remedy(msgspec.Struct, frozen=True):
    """A possible change of the machines, and its factor on the first choice's time to the target."""

    name: str
    factor: float


class Cell(msgspec.Struct, frozen=True):
    """A place of a map: so many workers, links that are `factor` times those of the network, which system wins there, and by how much.

    `ahead` is the second's time over the winner's; infinite times are left out.
    """

    workers: int
    factor: float
    winner: str
    seconds: float
    ahead: float | None


class PhaseMap(msgspec.Struct, frozen=True):
    """The winning systems over numbers of workers, and over `what` ("bandwidth" or "latency"), of which `here` is the network's."""

    what: str
    here: float
    systems: list[str]
    cells: list[Cell]


class Plan(msgspec.Struct):
    """The request of a plan, and its answer: `choices`, the best first, one for each system; `alone` is one worker without others.

    `runs` were made in `seconds` of real time, and `kept` were taken from the cache; `ended` says why the search ended, and `nearest` how
    near it came to the target where there is no choice. `seeds_used` are those of `seeds` under which there was time for runs. `remarks`
    are facts about the JOB, and `obstacle` is why it was not searched at all. `interruptions` are those that times are
    predicted with too. `proxy` has the details where smaller versions of the model were trained instead.
    """

    job: str
    target: str
    objective: str
    network: str
    devices: str
    workers: list[int]
    choices: list[Choice]
    alone: Choice | None
    refused: list[Refusal]
    remedies: list[Remedy]
    maps: list[PhaseMap]
    runs: int
    kept: int
    seconds: float
    ended: str
    seeds: list[int]
    scatter: list[Choice] = []
    nearest: str = ""
    seeds_used: list[int] = []
    remarks: list[str] = []
    obstacle: str = ""
    interruptions: str = ""
    proxy: ProxyPlan | None = None

    @property
    def best(self) -> Choice | None:
        """The first choice; None where no candidate is known to come to the target."""
        return self.choices[0] if self.choices else None

    @property
    def probability(self) -> float | None:
        """The probability that no other choice costs less than the first by more than a few per cent; None without one."""
        return self.choices[0].probability if self.choices else None

    @property
    def compared(self) -> Choice | None:
        """One machine alone, where it is not among the choices itself."""
        return None if any(each.is_alone for each in self.choices) else self.alone

    def front(self, x: str, y: str = "seconds") -> list[Choice]:
        """The Pareto front: the candidates that came to the target and that no other beats in both, by rising `x`."""
        found: list[Choice] = []
        for choice in sorted(self.scatter, key=lambda each: (value_of(each, x), value_of(each, y))):
            if not found or value_of(choice, y) < value_of(found[-1], y):
                found.append(choice)
        return found


def value_of(choice: Choice, what: str) -> float:
    """Its seconds, bytes, money or other quantity, of which less is better; infinite where it is not known."""
    value = choice.seconds.middle if what == "seconds" else getattr(choice, what)
    return float("inf") if value is None else float(value)
