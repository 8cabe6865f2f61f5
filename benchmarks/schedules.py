"""Random schedules of faults in virtual time, for every system: no hang, nothing lost or applied twice, the same bytes for the same seed.

    python benchmarks/schedules.py --schedules 100 --json schedules.json

A seed gives the crew, the way of training, and from 1 to 8 crashes, leaves, joins, stalls, held locks, cuts and lost messages, also of
those who join; so a failure is repeated by its system and seed (`--systems NAME --first SEED --schedules 1`). What fails is shrunk to the
fewest faults, and printed as values to copy; the search goes on with the next one. `schedule_checks.py` has what is checked.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from schedule_checks import ROOM, Case, allowed, play, seconds_of
from schedule_training import WAYS

import polyrhythm as pr
from elastic.schedules import Schedule, random_schedule, shrink
from polyrhythm import systems
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import Crash, Disconnect, Drop, Exit, Fault, HoldGIL, Join, Leave, Newcomers, Segfault, Stall

WORKERS = 4
FIXED: list[Any] = [Crash, Crash, Disconnect, Exit, HoldGIL, Segfault, Stall]
CHANGING: list[Any] = [*FIXED, Join, Join, Leave, Leave]
_STEPS, _TRIES = 14, 150


def case(system: str, strategy: Strategy, seed: int) -> Case:
    """What the seed gives."""
    draw = random.Random(f"{system} {seed}")
    most = draw.choice((WORKERS, WORKERS, WORKERS + 1))
    crews = [
        pr.Crew(1, most),
        pr.Crew(1, most, replace=False),
        pr.Crew(most - 1, most, replace=False),
        pr.Crew(2, most, batch="global"),
        pr.Crew(2, most, start=2, wait=0.0),
        WORKERS,
    ]
    way = draw.choice(
        [way for way in WAYS if way not in ("calls", "two models") or not strategy.chooses]
    )  # who is not drawn takes no steps
    made = Case(system, strategy, seed, draw.choice(crews), way)
    seconds = seconds_of(made)
    if draw.random() < 0.3:
        made = replace(made, detection=round(draw.uniform(0.02, 0.3) * seconds, 6))
    if draw.random() < 0.3:
        made = replace(made, startup=round(draw.uniform(0.02, 0.3) * seconds, 6))
    kinds = (FIXED if made.crew == WORKERS else CHANGING) + [Drop] * (seed % 8 == 7)
    actors = [f"worker/{rank}" for rank in range(made.begins)] + [f"server/{k}" for k in range(made.servers) if seed % 4 == 3]
    found = random_schedule(seed, actors, seconds, kinds, _STEPS)
    newcomers, joins = Newcomers(most, pr.Crew.of(made.crew).replaces), sum(isinstance(fault, Join) for fault in found)
    return replace(made, faults=tuple(_of_newcomer(draw, fault, newcomers, joins) for fault in found))


def _of_newcomer(draw: random.Random, fault: Any, newcomers: Newcomers, joins: int) -> Fault:
    """The fault, or the same of one that may join in the place of its worker."""
    actor = getattr(fault, "actor", "")
    if not actor.startswith("worker/") or draw.random() > 0.3:
        return fault
    name = f"worker/{int(actor.removeprefix('worker/')) + newcomers.places * draw.choice((1, 1, 2))}"
    return replace(fault, actor=name) if newcomers.may_be(name, joins) else fault


@dataclass(slots=True)
class Failure:
    """What failed with a seed, and the fewest faults with which it does."""

    seed: int
    problem: str
    case: str
    faults: str


@dataclass(slots=True)
class Tally:
    """The runs of a system, how they ended, and those that failed; one failure of each kind is shrunk."""

    runs: int = 0
    replayed: int = 0
    seconds: float = 0.0
    ended: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def rows(self) -> dict[str, Any]:
        """As JSON has it."""
        counts = {"ended": dict(self.ended), "failed": dict(self.failed), "failures": [asdict(each) for each in self.failures]}
        return {"runs": self.runs, "replayed": self.replayed, "seconds": round(self.seconds, 1), **counts}


def kind_of(problem: str) -> str:
    """A problem without its numbers: what is equal is one kind."""
    return re.sub(r"\d+(\.\d+)?(e-?\d+)?", "#", problem)[:110]


def shortest(made: Case, kind: str) -> Schedule:
    """The fewest faults with which the case fails in the same way, after at most `_TRIES` runs."""
    tries = iter(range(_TRIES))

    def fails(faults: Schedule) -> bool:
        if faults != made.faults and next(tries, None) is None:
            return False
        return kind_of(play(replace(made, faults=faults)).problem) == kind

    return shrink(made.faults, fails)


def check(made: Case, tally: Tally, replays: bool) -> None:
    """Run a case, count how it ends, and shrink it if it fails in a new way."""
    began = time.perf_counter()
    found = play(made)
    tally.runs += 1
    if replays and not found.problem:
        tally.replayed += 1
        if play(made).record != found.record:
            found = replace(found, problem="the same seed gives other bytes")
    if not found.problem:
        tally.ended[allowed(found.error)] += 1
    else:
        kind = kind_of(found.problem)
        tally.failed[kind] += 1
        if tally.failed[kind] == 1:
            faults = made.faults if found.problem.startswith("the same seed") else shortest(made, kind)
            failure = Failure(made.seed, found.problem, made.settings, repr(faults))
            tally.failures.append(failure)
            print(f"\n{made.system} seed {made.seed}: {found.problem[:600]}\n    {failure.case}\n    {faults}", flush=True)
    tally.seconds += time.perf_counter() - began


def _cases(names: Sequence[str], first: int, schedules: int, until: float) -> Iterator[tuple[str, int]]:
    for seed in range(first, first + schedules):
        for name in names:
            if time.monotonic() > until:
                return
            yield name, seed


def written(path: str, tallies: dict[str, Tally], settings: dict[str, Any]) -> None:
    """Write what was found so far."""
    Path(path).write_text(json.dumps({"settings": settings, "systems": {name: each.rows() for name, each in tallies.items()}}, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=list(systems.SYSTEMS), help="the names of systems; all by default")
    parser.add_argument("--schedules", type=int, default=100, help="the number of schedules of each system")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many seconds")
    parser.add_argument("--json", help="a file for the counts and failures")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    strategies = {name: systems.find(name) for name in given.systems}
    names = [name for name, strategy in strategies.items() if strategy.workers(ROOM) > 1]
    tallies = {name: Tally() for name in names}
    for number, (name, seed) in enumerate(_cases(names, given.first, given.schedules, time.monotonic() + given.seconds)):
        try:
            made = case(name, strategies[name], seed)
        except CompositionError as problem:
            tallies[name].ended[f"refused: {problem}"[:110]] += 1
            continue
        check(made, tallies[name], replays=seed % 10 == 0)
        if given.json and number % 50 == 49:
            written(given.json, tallies, vars(given))
    if given.json:
        written(given.json, tallies, vars(given))
    for name, tally in tallies.items():
        print(f"{name:24} {tally.runs:6} runs {tally.seconds:7.1f} s  failed {sum(tally.failed.values())}  {dict(tally.ended)}")
    print(f"{sum(each.runs for each in tallies.values())} runs, {sum(sum(each.failed.values()) for each in tallies.values())} failed")


if __name__ == "__main__":
    main()
