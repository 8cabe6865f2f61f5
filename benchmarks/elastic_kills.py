"""Workers are killed, stopped, held and asked to leave at random times, on real processes: what the others notice, and what is lost.

    python benchmarks/elastic_kills.py --busy 2 --json benchmarks/results/elastic_kills.json

Each run trains a small model on `MOST` workers of a crew that may change, one thread each, whose steps take 20 ms at least, for
`EPOCHS` passes through the data; in other systems than `LOCKSTEP`, where workers may be whole passes apart, for a single one. A thread
has faults befall workers that take steps, the first one too: SIGKILL, one of four followed by another within 60 ms, so also while the
others re-form, or while the newcomer attaches; SIGSTOP, continued after 0.5 to 5 s, or never; a call in C that holds the GIL for 0.5 to
5 s; and SIGTERM, one in a run, at which the worker leaves with notice after a second.

A run fails if it raises, if it makes no progress for 20 seconds, if workers end with different weights, if a sample of an epoch is in no
step or in several (of others than `LOCKSTEP` this is counted), if a worker that has left leaves a step open, or if a stop or a hold of
3 s is not noticed. In systems of `EXACT` the final weights show how often each sample had an effect, and with how many workers.

*Detected* are the seconds from the fault until the launcher records it; *standstill* is the longest time between two steps of a worker
that nothing has befallen, from the fault to two seconds after its end, or to the next one, less the usual time; *full speed* are the
seconds from the end of the fault until as many workers have taken a step as before it. Faults that come in pairs count for the first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from killing.faults import Kind, Strike, Striker, children
from killing.job import BATCH, PACE, RATE, Model, data, hold_on_demand
from killing.records import Ledger, StepRecord, ledger, read
from killing.times import full_speed, shown, standstills

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.kernel.events import AnyEvent, CrewChanged, Faulted, Stepped, Suspected
from polyrhythm.core.training.run import attempt

EXACT = ("allreduce", "horovod", "tree")
"""Gradients are averaged as they are, so that the effect of a sample is known."""
LOCKSTEP = (*EXACT, "powersgd", "dgc")
"""All have the same weights after each step, so that a sample is in a step, or in none."""
TOGETHER = (*LOCKSTEP, "diloco", "local-sgd")
"""What a worker has completed alone is undone if it is killed before another one has completed it."""
SYSTEMS = (*TOGETHER, "ssp", "downpour", "easgd", "hybrid-groups", "fedavg", "gossipgrad", "adpsgd", "noloco", "moshpit", "sgp")
LEAST, MOST = 1, 3
USES, EPOCHS = 6048, 6
STEPS = USES // (BATCH * MOST)
NAMED_SECONDS = 3.0
COUNTS = {Kind.KILL: 200, Kind.STOP: 42, Kind.FREEZE: 8, Kind.HOLD: 30, Kind.TERM: 30}


@dataclass(frozen=True, slots=True)
class Train:
    """So many passes through the data; the record of steps and the hash of the final weights are written to `folder`."""

    folder: str
    epochs: int
    exact: bool
    name: str = "kills"

    def __call__(self, worker: pr.Worker) -> None:
        hold_on_demand(self.folder)
        record = StepRecord(self.folder)
        torch.manual_seed(0)
        samples = USES // self.epochs
        model = Model((self.epochs, samples) if self.exact else None)
        model, optimizer = worker.attach(model, model.optimizer())
        for epoch in worker.epochs(self.epochs):
            for x, y, numbers in worker.batches(data(samples), batch_size=BATCH):
                record.begin(epoch, numbers.tolist())
                time.sleep(PACE)
                optimizer.zero_grad()
                model.loss(x, y, epoch, numbers).backward()
                optimizer.step()
                record.end()
        worker.finish()
        digest = hashlib.sha256(b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())).hexdigest()
        Path(self.folder, f"{os.getpid()}.weights").write_text(digest)


@dataclass(slots=True)
class Watcher:
    """What the launcher has recorded of one run, and when."""

    seen: list[tuple[float, AnyEvent]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self, event: AnyEvent) -> None:
        """An event has come to the launcher."""
        self.seen.append((time.monotonic(), event))

    def present(self) -> list[str]:
        """The workers that have taken a step lately."""
        now = time.monotonic()
        return sorted({event.actor for at, event in self.seen[-400:] if isinstance(event, Stepped) and now - at < 0.5})

    def live(self, striker: Striker) -> None:
        """Have faults come until the run is over, or comes to its last steps."""
        while not self.over.wait(striker.dice.uniform(0.4, 2.0)):
            clock = max((event.clock for _, event in self.seen if isinstance(event, Stepped)), default=0)
            if 3 < clock < STEPS - 40:
                striker.strike()
                last = striker.strikes[-1:]
                self.over.wait(max((each.until - time.monotonic() + 0.5 * (each.until > each.at) for each in last), default=0.0))

    def detected(self, strike: Strike) -> float | None:
        """Seconds until what befell a worker is recorded."""
        origin = min(at - event.time for at, event in self.seen)
        verdict = {Kind.STOP: "stopped", Kind.FREEZE: "stopped", Kind.HOLD: "held"}.get(strike.kind)
        times = [event.time + origin for at, event in self.seen if at > strike.at and _notes(event, strike.name, verdict)]
        return min(times) - strike.at if times and (verdict is None or min(times) < strike.until + NAMED_SECONDS) else None


def _notes(event: AnyEvent, name: str, verdict: str | None) -> bool:
    """True if `event` is the loss of `name`, or the `verdict` on it."""
    if verdict is not None:
        return isinstance(event, Suspected) and (event.actor, event.verdict) == (name, verdict)
    return (isinstance(event, Faulted) and event.actor == name) or (isinstance(event, CrewChanged) and name in event.left)


def process_of(name: str) -> int | None:
    """The process of a worker."""
    return next((pid for pid, found in children(os.getpid()).items() if found == name), None)


@dataclass(frozen=True, slots=True)
class Found:
    """What followed one fault; times in seconds."""

    kind: Kind
    lasted: float
    alone: bool
    detected: float | None
    standstill: list[float]
    full: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """What one run of `system` has shown."""

    system: str
    seed: int
    load: float
    faults: list[Found]
    samples: Ledger
    problem: str


def measured(system: str, seed: int, wanted: dict[Kind, int]) -> Row:
    """One run of `system`, with faults of those that are `wanted`, whose numbers go down."""
    watcher = Watcher()
    with tempfile.TemporaryDirectory() as folder:
        striker = Striker(random.Random(seed), wanted, folder, watcher.present, process_of)
        thread = threading.Thread(target=watcher.live, args=(striker,))
        thread.start()
        on = pr.Processes(timeout=20.0)
        epochs = EPOCHS if system in LOCKSTEP else 1
        train = Train(folder, epochs, system in EXACT)
        try:
            tried = attempt(train, workers=pr.Crew(LEAST, MOST), strategy=systems.resolve(system), on=on, watch=watcher.watch, seed=seed)
        finally:
            watcher.over.set()
            thread.join()
        processes = read(folder)
        digests = {path.read_text() for path in Path(folder).glob("*.weights")}
    strikes = striker.strikes
    found = [
        Found(
            each.kind,
            each.until - each.at,
            each.alone,
            watcher.detected(each),
            standstills(processes, each, strikes),
            full_speed(processes, each, strikes) if each.kind is not Kind.TERM else None,
        )
        for each in strikes
    ]
    killed = [each.pid for each in strikes if each.kind in (Kind.KILL, Kind.FREEZE)]
    samples = ledger(processes, epochs, USES // epochs, MOST, killed if system in TOGETHER else ())
    problems = [str(tried.error)] if tried.error else [] if len(digests) == 1 else [f"{len(digests)} different weights"]
    if not tried.error:
        problems += [str(samples)] if system in LOCKSTEP and not samples.whole else []
        left = {each.pid for each in strikes if each.kind is Kind.TERM}
        problems += [f"{each.pid} left in a step" for each in processes if each.pid in left and each.open]
        problems += wrong_effects(tried.outcome.weights["uses"], samples.left) if system in EXACT else []
    problems += [f"not noticed: {each}" for each in found if each.lasted > NAMED_SECONDS and each.detected is None]
    return Row(system, seed, os.getloadavg()[0], found, samples, "; ".join(problems))


def wrong_effects(uses: torch.Tensor, left: int) -> list[str]:
    """A sentence on samples whose effect is not that of one step, by the rate for the workers of that step; `left` have none."""
    rates = torch.tensor([RATE * math.sqrt(size / MOST) / size for size in range(LEAST, MOST + 1)])
    wrong = (uses.reshape(-1, 1) - rates).abs().min(1).values > 1e-5
    none = uses.reshape(-1) == 0
    wrong &= ~none | (none.sum() != left)
    values = sorted({round(value / RATE, 4) for value in uses.reshape(-1)[wrong].tolist()})
    return [f"{int(wrong.sum())} effects of samples are wrong, such as {values[:8]}"] if wrong.any() else []


def table(rows: Sequence[Row], key: Any, names: Sequence[str], head: str) -> str:
    """The faults by `key`, in Markdown: counts, medians, and the worst."""
    lines = [f"| {head} | faults | detected | worst | standstill | worst | full speed | worst |", "|---|" + "--:|" * 7]
    for name in names:
        mine = [each for row in rows for each in row.faults if key(row, each) == name]
        alone = [each for each in mine if each.alone]
        cells = [str(len(mine))]
        cells += shown([each.detected for each in alone if each.detected is not None])
        cells += shown([gap for each in alone for gap in each.standstill])
        cells += shown([each.full for each in alone if each.full is not None])
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def samples_table(rows: Sequence[Row]) -> str:
    """What became of the samples, by system, in Markdown."""
    lines = ["| system | runs | samples used | left out | lost | doubled | again after an open step | failed |", "|---|" + "--:|" * 7]
    for system in dict.fromkeys(row.system for row in rows):
        mine = [row for row in rows if row.system == system]
        sums = [sum(getattr(row.samples, what) for row in mine) for what in ("uses", "left", "lost", "doubled", "again")]
        lines.append(f"| {system} | {len(mine)} | {' | '.join(map(str, sums))} | {sum(bool(row.problem) for row in mine)} |")
    return "\n".join(lines)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs=len(COUNTS), default=[*COUNTS.values()], metavar="N", help=", ".join(COUNTS))
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    wanted, rows, seed = dict(zip(COUNTS, given.counts, strict=True)), list[Row](), given.seed
    with busy(given.busy):
        while any(wanted.values()):
            rows.append(measured(given.systems[seed % len(given.systems)], seed, wanted))
            print(seed, rows[-1].system, len(rows[-1].faults), [*wanted.values()], rows[-1].problem[:2000], flush=True)
            seed += 1
    singles = [row for row in rows if any(each.kind is Kind.KILL for each in row.faults)]
    print("\n" + table(rows, lambda row, each: each.kind, list(Kind), "fault"))
    print("\n" + table(singles, lambda row, each: row.system if each.kind is Kind.KILL else "", given.systems, "SIGKILL under"))
    print("\n" + samples_table(rows))
    if given.json:
        found = {"seed": given.seed, "busy": given.busy, "versions": {"torch": torch.__version__}, "rows": [asdict(row) for row in rows]}
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
