"""Workers are killed at random while they train on real processes: what the others notice, and whether the run is whole in the end.

    python benchmarks/elastic_kills.py --seconds 300 --json kills.json

Each run trains a small model on `MOST` workers of a crew that may change, one thread each, whose steps take `PACE` seconds at least. A
thread kills a worker that takes steps (SIGKILL), the first one too, at random times; one kill of four is followed by another within
60 ms, so also while the others re-form, or while the newcomer attaches; and one of six is a SIGTERM, at which the worker leaves with
notice after a second. A run fails if it raises, if it makes no progress for 20 seconds, or if workers end with different weights.

*Detected* are the seconds from the kill until the launcher records the loss; *standstill* is the longest time between two steps of a
worker that stays, in the two seconds after a kill, less the usual time; *full speed* are the seconds from the kill until as many
workers take steps as before. Kills that come in pairs count for the first of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.kernel.events import AnyEvent, CrewChanged, Faulted, Stepped
from polyrhythm.core.training.run import attempt

SYSTEMS = ("allreduce", "ssp", "diloco", "adpsgd", "gossipgrad", "downpour", "hybrid-groups", "easgd", "local-sgd", "horovod")
LEAST, MOST = 1, 3
PACE = 0.02
STEPS = 250
_WINDOW = 2.0


@dataclass(frozen=True, slots=True)
class Train:
    """`STEPS` steps of a small model; the hash of the final weights is written to `folder`."""

    folder: str
    name: str = "kills"

    def __call__(self, worker: pr.Worker) -> None:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
        for step in worker.range(STEPS):
            time.sleep(PACE)
            x = torch.randn(8, 20, generator=torch.Generator().manual_seed(1000 * step + worker.rank))
            worker.count(8)
            optimizer.zero_grad()
            F.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
            optimizer.step()
        worker.finish()
        digest = hashlib.sha256(b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())).hexdigest()
        Path(self.folder, f"{os.getpid()}").write_text(digest)


@dataclass(slots=True)
class Kill:
    """A signal to `name` at a time of CLOCK_MONOTONIC, and the workers that took steps then."""

    name: str
    at: float
    number: int
    present: int
    alone: bool = True


@dataclass(slots=True)
class Killer:
    """Kills workers of one run, by what it sees of its events."""

    dice: random.Random
    kills: list[Kill] = field(default_factory=list)
    seen: list[tuple[float, AnyEvent]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self, event: AnyEvent) -> None:
        """An event has come to the launcher."""
        self.seen.append((time.monotonic(), event))

    def present(self) -> list[str]:
        """The workers that have taken a step lately."""
        now = time.monotonic()
        recent = {event.actor for at, event in self.seen[-400:] if isinstance(event, Stepped) and now - at < 0.5}
        return sorted(recent - self.gone)

    def live(self) -> None:
        """Kill until the run is over, or comes to its last steps."""
        while not self.over.wait(self.dice.uniform(0.4, 2.0)):
            clock = max((event.clock for _, event in self.seen[-50:] if isinstance(event, Stepped)), default=0)
            if 3 < clock < STEPS - 40:
                self._kill()
                if self.dice.random() < 1 / 4:
                    time.sleep(self.dice.uniform(0.0, 0.06))
                    self._kill(alone=False)

    def _kill(self, alone: bool = True) -> None:
        present = self.present()
        number = signal.SIGTERM if alone and self.dice.random() < 1 / 6 else signal.SIGKILL
        if len(present) < 2:
            return
        name = self.dice.choice(present)
        for pid in processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                self.gone.add(name)
                self.kills.append(Kill(name, time.monotonic(), int(number), len(present), alone))


def processes(name: str) -> list[int]:
    """The processes of that name below this one."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                before, _, rest = (entry / "stat").read_text().rpartition(")")
                parents[int(entry.name)], names[int(entry.name)] = int(rest.split()[1]), before.partition("(")[2]
    own, servers = os.getpid(), {pid for pid, parent in parents.items() if parent == os.getpid()}
    return [pid for pid, found in names.items() if found == name and (parents[pid] in servers or parents[pid] == own)]


@dataclass(slots=True)
class Row:
    """What one run of `system` has shown; times in seconds."""

    system: str
    kills: int
    detected: list[float]
    standstill: list[float]
    full: list[float]
    problem: str


def measured(system: str, seed: int) -> Row:
    """One run of `system`."""
    killer = Killer(random.Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        thread = threading.Thread(target=killer.live)
        thread.start()
        try:
            tried = attempt(
                Train(folder),
                workers=pr.Crew(LEAST, MOST),
                strategy=systems.resolve(system),
                on=pr.Processes(timeout=20.0),
                watch=killer.watch,
            )
        finally:
            killer.over.set()
            thread.join()
        digests = {path.read_text() for path in Path(folder).iterdir()}
    problem = str(tried.error) if tried.error else "" if len(digests) == 1 else f"{len(digests)} different weights"
    return Row(system, len(killer.kills), *times(killer), problem)


def times(killer: Killer) -> tuple[list[float], list[float], list[float]]:
    """Of each kill: until it was recorded, the longest standstill of the others, and until as many took steps again."""
    steps: dict[str, list[float]] = {}
    for _, event in killer.seen:
        if isinstance(event, Stepped):
            steps.setdefault(event.actor, []).append(event.time)
    origin = min((at - event.time for at, event in killer.seen), default=0.0)
    detected, standstill, full = [], [], []
    for kill in killer.kills:
        if not kill.alone:
            continue
        since = kill.at - origin
        notices = [event.time for at, event in killer.seen if at > kill.at and loss_of(event, kill.name)]
        if kill.number == signal.SIGKILL and notices:
            detected.append(min(notices) - since)
        gaps = [longest(times, since) for name, times in steps.items() if name not in killer.gone]
        standstill.extend(gap for gap in gaps if gap is not None)
        newcomers = sorted(times[0] for times in steps.values() if times[0] > since)
        if newcomers and kill.number == signal.SIGKILL:
            full.append(newcomers[0] - since)
    return detected, standstill, full


def loss_of(event: AnyEvent, name: str) -> bool:
    """True if the launcher records the loss of `name`."""
    return (isinstance(event, Faulted) and event.actor == name) or (isinstance(event, CrewChanged) and name in event.left)


def longest(times: Sequence[float], since: float) -> float | None:
    """The longest time between two steps after `since`, less the usual one; None for a worker that was not there."""
    gaps = [after - before for before, after in pairwise(times) if before < since + _WINDOW and after > since]
    usual = [after - before for before, after in pairwise(times)]
    return max(gaps) - statistics.median(usual) if gaps and times[0] < since else None


def shown(rows: Sequence[Row]) -> str:
    """A table of all systems, in Markdown: medians, and the worst."""
    lines = ["| system | runs | kills | detected | worst | standstill | worst | full speed | worst | failed |", "|---|" + "--:|" * 9]
    for system in [*dict.fromkeys(row.system for row in rows), "all"]:
        mine = [row for row in rows if system in ("all", row.system)]
        cells = [str(len(mine)), str(sum(row.kills for row in mine))]
        for what in ("detected", "standstill", "full"):
            found = [value for row in mine for value in getattr(row, what)]
            cells += [f"{statistics.median(found):.3f}", f"{max(found):.3f}"] if found else ["", ""]
        lines.append(f"| {system} | {' | '.join(cells)} | {sum(bool(row.problem) for row in mine)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    until, rows, seed = time.monotonic() + given.seconds, list[Row](), given.seed
    while time.monotonic() < until:
        rows.append(measured(given.systems[seed % len(given.systems)], seed))
        print(seed, rows[-1].system, rows[-1].kills, rows[-1].problem[:2000], flush=True)
        seed += 1
    print("\n" + shown(rows))
    if given.json:
        found: dict[str, Any] = {"seed": given.seed, "load": os.getloadavg(), "rows": [asdict(row) for row in rows]}
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
