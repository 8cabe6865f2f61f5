"""What must hold of a run with random faults, whatever its system: `schedules.py` draws the cases.

- It ends, or with an error that its policy declares: no deadlock, but for messages that were lost, and no other error.
- No sample is used twice in an epoch, and none is left out, but for those that a lost worker had.
- Where each contribution is told apart in the final weights (sums and means of plain gradients), none is applied twice, and none of a
  worker that remains is missing.
- Where all replicas end with the same bits, they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import msgspec
from schedule_training import BATCH, EPOCHS, SAMPLES, Ledger, training
from torch import Tensor

import polyrhythm as pr
from polyrhythm.core.kernel.events import CrewChanged
from polyrhythm.core.kernel.location import unplaced
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.crew_policy import CrewPolicy, OnLoss
from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import DeadlockError, DivergedError, PolyrhythmError, StateLostError, WorkerFailed
from polyrhythm.hardware.faults import Drop, Fault
from polyrhythm.shuffle import OwnPace

ROOM = 4
_DECLARED = (
    "workers are left, where",
    "the run was ending",
    "the run cannot go on without it",
    "it held the last copy",
    "had the state of the run are lost",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A run: `crew` workers of a system that train in one of `WAYS`, with `faults`."""

    system: str
    strategy: Strategy
    seed: int
    crew: Any
    way: str
    detection: float = 0.0
    startup: float = 0.0
    faults: tuple[Fault, ...] = ()

    @property
    def begins(self) -> int:
        """The number of workers with which it begins."""
        return self.strategy.workers(pr.Crew.of(self.crew).first)

    @property
    def servers(self) -> int:
        """The number of servers."""
        return len(StrategyPlan.of(self.strategy, unplaced(self.begins), 0).servers)

    @property
    def settings(self) -> str:
        """Everything but the faults, in words."""
        return f"{self.system}, workers={self.crew!r}, {self.way!r}, seed={self.seed}, detection={self.detection}, startup={self.startup}"


@dataclass(frozen=True, slots=True)
class Found:
    """How a run ended: the `problem`, if something did not hold, and its record."""

    problem: str
    error: PolyrhythmError | None
    record: bytes


def attempted(case: Case, ledger: Ledger, scale: bool = True) -> Attempt:
    """The run of a case."""
    on = pr.Simulator(network="lan", faults=case.faults, seed=case.seed, detection=case.detection, startup=case.startup)
    return attempt(training(case.way, ledger, scale), workers=case.crew, strategy=case.strategy, on=on, seed=5)


_seconds: dict[tuple[str, str], float] = {}
_scales: dict[str, bool | None] = {}


def seconds_of(case: Case) -> float:
    """The virtual seconds of such a run without faults."""
    key = (case.system, repr(case.crew))
    if key not in _seconds:
        done = attempted(replace(case, seed=0, faults=(), way="plain"), Ledger())
        assert done.error is None, f"{case.settings} without faults: {done.error}"
        _seconds[key] = done.outcome.summary.virtual_seconds
    return _seconds[key]


def scale_of(case: Case) -> bool | None:
    """Whether gradients must be scaled for each to count once in the final weights; None where they are not told apart there."""
    if case.system not in _scales:
        _scales[case.system] = next((scale for scale in (True, False) if _adds_up(case, scale)), None)
    return _scales[case.system]


def _adds_up(case: Case, scale: bool) -> bool:
    ledger = Ledger()
    done = attempted(replace(case, seed=0, faults=(), way="counted", crew=ROOM), ledger, scale)
    if done.error is not None or not ledger.used:
        return False
    if not all(map(_conserves, (level for _, exchange in case.strategy.exchanges for level in exchange.levels))):
        return False
    used = {place for each in ledger.used.values() for place in _places(each)}
    counts = _counts(done)
    return all(abs(float(counts[epoch, sample]) - ((epoch, sample) in used)) < 1e-6 for epoch, sample in _every())


def _conserves(level: Exchange) -> bool:
    """True if all of what a worker has done is in the result soon: a codec keeps nothing back, and nobody has weights of its own.

    Where rounds average a random part of the weights (`sparta`), the rest is each worker's own until it is drawn: a newcomer's copy has
    its donor's part of it once more, and a worker that leaves takes its part with it.
    """
    topology, held = level.topology.traits, level.topology.service is not None or Capability.COLLECTIVES in level.topology.traits.provides
    if "stream" in type(level.topology).__name__.lower():  # datagrams, which nobody sends again
        return False
    codec = level.agreement.codec.traits
    if topology.replicas_differ or codec.keeps or (level.payload is Payload.WEIGHTS and codec.lossy):
        return False
    return level.payload is not Payload.WEIGHTS or held


def _places(used: list[tuple[int, tuple[int, ...]]]) -> Iterator[tuple[int, int]]:
    return ((epoch, sample) for epoch, samples in used for sample in samples)


def _counts(done: Attempt) -> Tensor:
    (weights,) = done.outcome.weights.values()
    return -weights


def allowed(error: PolyrhythmError | None) -> str:
    """The words for an error that a policy declares, or for none; empty for another."""
    if error is None:
        return "complete"
    if isinstance(error, DeadlockError):
        return "messages were lost" if "lost" in str(error).split(";")[0] and "because" in str(error) else ""
    if isinstance(error, StateLostError | WorkerFailed):
        return next((words for words in _DECLARED if words in str(error)), "")
    return ""


def play(case: Case) -> Found:
    """Run a case, and look whether everything holds."""
    ledger = Ledger()
    scale = scale_of(case) if case.way == "counted" else True
    try:
        done = attempted(case, ledger, bool(scale))
    except Exception as problem:
        return Found(f"raised {problem!r}", None, b"")
    record = msgspec.json.encode(done.outcome.events)
    return Found(_problem(case, ledger, done, scale), done.error, record)


def _problem(case: Case, ledger: Ledger, done: Attempt, scale: bool | None) -> str:
    drops = any(isinstance(fault, Drop) for fault in case.faults)
    if done.error is not None:
        if allowed(done.error) or (drops and (str(done.error).find("lost") >= 0 or isinstance(done.error, DivergedError))):
            return ""
        return f"{type(done.error).__name__}: {done.error}" + (f" <- {done.error.__cause__!r}" if done.error.__cause__ else "")
    if drops:
        return ""
    lost = {*done.outcome.summary.lost}
    checks = [_alike(case, ledger, lost), _data(case, ledger, done, lost)]
    if case.way == "counted" and scale is not None:
        checks.append(_applied(case, ledger, done, lost))
    return next(filter(None, checks), "")


def _alike(case: Case, ledger: Ledger, lost: set[str]) -> str:
    ended = {digest for name, digest in ledger.digests.items() if name not in lost}
    alike = all(exchange.ends_alike for _, exchange in case.strategy.exchanges)
    return f"the workers end with {len(ended)} different weights" if alike and len(ended) > 1 else ""


def _again(done: Attempt) -> int:
    """The most samples that changes of the crew may have come again: of a round for each."""
    return sum(2 * BATCH * len(event.members) for event in done.outcome.events if isinstance(event, CrewChanged))


def _data(case: Case, ledger: Ledger, done: Attempt, lost: set[str]) -> str:
    """No sample comes twice in an epoch, but for the last batch of a lost worker; where its share is dealt anew, none is left out."""
    if case.way == "range" or isinstance(case.crew, int) or case.strategy.shuffle == OwnPace():
        return ""
    unsure = _unsure(ledger, lost)
    count = Counter(place for used in ledger.used.values() for place in _places(used))
    twice = sorted(place for place, times in count.items() if times > 1 and place not in unsure)
    travelled = bool(lost) and case.strategy.shuffle.sends  # where a ring breaks, some batches were sent on and others not
    if len(twice) > _again(done) and not travelled:  # the last samples come again for those who have a batch less than others
        return f"{len(twice)} samples come twice in their epoch, such as {twice[:3]}"
    policy = CrewPolicy.of(case.strategy)
    if lost and (case.detection or policy.worker is not OnLoss.REFORM or policy.unsent > 1):
        return ""  # the others were further when they heard of it
    missing = [place for place in _every() if place not in count and place not in unsure]
    most = EPOCHS * (ROOM + 1)  # fewer samples than members are left out
    return f"{len(missing)} samples are left out: {missing[:5]}" if len(missing) > most and not case.strategy.chooses else ""


def _in_lockstep(case: Case) -> bool:
    """True if the contributions of all are merged at once."""
    return not any(level.agreement.conditions.may_proceed(1, 0) for _, exchange in case.strategy.exchanges for level in exchange.levels)


def _unsure(ledger: Ledger, lost: set[str]) -> set[tuple[int, int]]:
    """The samples of the last batch of a lost worker, which the others may not know to be used."""
    return {place for name in lost for place in _places([*ledger.used[name][-1:], *([ledger.held[name]] if name in ledger.held else [])])}


def _applied(case: Case, ledger: Ledger, done: Attempt, lost: set[str]) -> str:
    """Of a step that is repeated by 3 in place of 5 workers there is 5 / 3; learning rates follow the number of workers."""
    counts = _counts(done)
    sizes = [len(event.members) for event in done.outcome.events if isinstance(event, CrewChanged)] + [case.begins]
    alone = 1.05 * max(sizes)  # of a mean over one contribution
    most = 1.9 if not scale_of(case) else max(1.9, 1.05 * max(sizes) / min(sizes)) if _in_lockstep(case) else alone
    unsure = _unsure(ledger, lost)
    times = Counter(place for used in ledger.used.values() for place in _places(used))
    twice = [place for place in _every() if float(counts[place]) > most * max(times[place], 1) + (place in unsure)]
    if twice:
        return f"{len(twice)} samples were applied {float(counts[twice[0]]):.3f} times, such as {twice[:3]}"
    lone, unsent = CrewPolicy.of(case.strategy).unsent + 1, lost | _handed_to(done, lost)
    for name, used in ledger.used.items():
        missing = [place for place in _places(used) if float(counts[place]) < 0.01]  # old ones may count for less
        last = len(list(_places(used[-lone:]))) if name in unsent else 0
        if len(missing) > last:
            return f"{len(missing)} samples of {name} were not applied, such as {missing[:3]}"
    return ""


def _handed_to(done: Attempt, lost: set[str]) -> set[str]:
    """Those that have left and handed what they had not sent to one that was lost, or that handed it on to such a one."""
    changes = [event for event in done.outcome.events if isinstance(event, CrewChanged)]
    found: set[str] = set()
    for event in reversed(changes):  # who leaves hands over to one that leaves later, if at all
        found |= {name for name in event.left if event.members[0] in lost | found}
    return found


def _every() -> Iterator[tuple[int, int]]:
    return product(range(EPOCHS), range(SAMPLES))
