"""One job and the same kills under torchrun, torchft, Ray Train and Polyrhythm: the standstill, full speed, and what became of samples.

    python benchmarks/elastic_peers.py --peers /tmp/peers/bin --rounds 3 --json benchmarks/results/elastic_peers.json

The three others are in an environment of their own, whose `bin` is given. Each round runs every way once, in turn. The job is that of
`elastic_kills.py`: three workers, one thread each, steps of 20 ms at least, `EPOCHS` passes through `SAMPLES` samples in batches of 8. In a
run a worker is killed (SIGKILL) `KILLS` times, after 2 to 7 seconds, the same for all ways by the seed, in which all three take steps: the
n-th of them in the order in which they were started.

- torchrun: `--max-restarts`, `--monitor-interval 0.1`, DistributedDataParallel over gloo, a checkpoint every `EVERY` steps.
- torchft: one group for each worker, each under a torchrun that restarts it; a lighthouse with timeouts of 1 s for heartbeats and for those
  that join, and ticks of 50 ms; gloo with 2 s; heartbeats of managers every 50 ms; batches by the number of the step.
- Ray Train: `FailureConfig(max_failures=-1)`, health checks every 0.1 s, a checkpoint every `EVERY` steps.
- Polyrhythm: `allreduce`, `workers=(1, 3)`, no checkpoint.

*Standstill* is the longest time after a kill in which no worker at all completes a step, less the usual time; *full speed* the time until
three workers have taken a step again. *Repeated* are samples of steps that were completed a second time, *lost* those of no step.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from killing.faults import Kind, Strike
from killing.job import BATCH
from killing.records import Ledger, ledger, read
from killing.times import full_speed, longest, shown

HERE = Path(__file__).parent
WORKERS = 3
SAMPLES, EPOCHS = 1008, 12
EVERY = 10
KILLS = 2
LIMIT = 240.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a way runs: the `bin` of the peers' environment, and the folder of the records."""

    peers: Path
    folder: str

    def job(self, name: str) -> str:
        """The script of a peer."""
        return str(HERE / "killing" / "peers" / f"job_of_{name}.py")

    @property
    def size(self) -> list[str]:
        """The arguments of every job."""
        return [self.folder, str(SAMPLES), str(EPOCHS)]


def torchrun(place: Place, processes: int = WORKERS) -> list[str]:
    """The command of a group of workers that restarts."""
    group = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--nnodes", "1", "--nproc-per-node", str(processes)]
    return [str(place.peers / "torchrun"), *group, "--max-restarts", "100", "--monitor-interval", "0.1"]


@contextmanager
def started(command: Sequence[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, whose output goes nowhere."""
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    process = subprocess.Popen(command, env=surroundings, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def under_torchrun(place: Place) -> Iterator[list[subprocess.Popen[bytes]]]:
    """All workers under one torchrun."""
    with started([*torchrun(place), place.job("torchrun"), *place.size, str(EVERY)]) as process:
        yield [process]


@contextmanager
def under_torchft(place: Place) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A lighthouse, and a torchrun for each worker."""
    options = {"bind": "127.0.0.1:29510", "min_replicas": 1, "quorum_tick_ms": 50, "join_timeout_ms": 1000, "heartbeat_timeout_ms": 1000}
    lighthouse = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    with started([str(place.peers / "torchft_lighthouse"), *lighthouse], RUST_LOG="error"):
        time.sleep(1.0)
        groups = [
            started(
                [*torchrun(place, 1), place.job("torchft"), *place.size, str(rank), str(WORKERS)],
                TORCHFT_LIGHTHOUSE="http://127.0.0.1:29510",
            )
            for rank in range(WORKERS)
        ]
        with groups[0] as first, groups[1] as second, groups[2] as third:
            yield [first, second, third]


@contextmanager
def under_ray(place: Place) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Ray Train, with a cluster of its own."""
    settings = {"RAY_TRAIN_V2_ENABLED": "1", "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1", "RAY_USAGE_STATS_ENABLED": "0"}
    try:
        with started([str(place.peers / "python"), place.job("ray"), *place.size, str(EVERY), str(WORKERS)], **settings) as process:
            yield [process]
    finally:
        subprocess.run([str(place.peers / "ray"), "stop", "--force"], capture_output=True, check=False)


@contextmanager
def under_polyrhythm(place: Place) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers that may change, under `allreduce`."""
    with started([sys.executable, str(HERE / "killing" / "own.py"), *place.size, str(WORKERS)]) as process:
        yield [process]


WAYS: dict[str, Callable[[Place], object]] = {
    "polyrhythm": under_polyrhythm,
    "torchft": under_torchft,
    "torchrun": under_torchrun,
    "ray-train": under_ray,
}


@dataclass(slots=True)
class Row:
    """What one run has shown; times in seconds, of `seconds` from the first step to the last."""

    way: str
    seed: int
    load: float
    seconds: float = 0.0
    usual: float = 0.0
    standstill: list[float] = field(default_factory=list)
    full: list[float] = field(default_factory=list)
    samples: Ledger = field(default_factory=lambda: Ledger(0, 0, 0, 0, 0, 0))
    problem: str = ""


def present(folder: str) -> list[int]:
    """The processes that have written to their records within the last half second, in the order of their ids."""
    now, found = time.time(), []
    for path in Path(folder).glob("*.steps"):
        with suppress(OSError):
            if now - path.stat().st_mtime < 0.5:
                found.append(int(path.stem))
    return sorted(found)


def killed(folder: str, seed: int, over: Callable[[], bool]) -> list[Strike]:
    """Kill workers until the job is `over`."""
    dice, strikes, until = random.Random(seed), list[Strike](), time.monotonic() + LIMIT
    moment, began = dice.uniform(2.0, 4.0), math.inf
    while not over() and time.monotonic() < until:
        time.sleep(0.02)
        alive = [pid for pid in present(folder) if pid not in {each.pid for each in strikes}]
        if len(alive) < WORKERS:
            began = math.inf
            continue
        began = min(began, time.monotonic())
        if len(strikes) < KILLS and time.monotonic() - began > moment:
            victim = alive[dice.randrange(WORKERS)]
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                now = time.monotonic()
                strikes.append(Strike(Kind.KILL, str(victim), victim, now, now, WORKERS))
            moment = dice.uniform(4.0, 7.0)
    return strikes


def measured(way: str, seed: int, peers: Path) -> Row:
    """One run."""
    row = Row(way, seed, os.getloadavg()[0])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with WAYS[way](Place(peers, folder)) as processes:  # type: ignore[attr-defined]
            strikes = killed(folder, seed, lambda: all(each.poll() is not None for each in processes))
            codes = [each.poll() for each in processes]
        steps = read(folder)
    ends = sorted(end for each in steps for end in each.ends)
    row.problem = "" if not any(codes) and None not in codes and len(strikes) == KILLS else f"exit codes {codes}, {len(strikes)} kills"
    if not ends:
        return row
    row.seconds, row.usual = ends[-1] - ends[0], (ends[-1] - ends[0]) * BATCH / (SAMPLES * EPOCHS / WORKERS)
    for strike in strikes:
        if (full := full_speed(steps, strike, strikes)) is not None:
            row.full.append(full)
            gap = longest(ends, strike.at, strike.at + full)
            row.standstill.append(0.0 if gap is None else gap)
        else:
            row.problem += f"; never at full speed after the kill at {strike.at - ends[0]:.1f} s"
    row.samples = ledger(steps, EPOCHS, SAMPLES, WORKERS)
    return row


def table(rows: Sequence[Row]) -> str:
    """All ways, in Markdown."""
    head = "| way | runs | kills | standstill | worst | full speed | worst | seconds | repeated | lost | open and again | problems |"
    lines = [head, "|---|" + "--:|" * 11]
    for way in dict.fromkeys(row.way for row in rows):
        mine = [row for row in rows if row.way == way]
        cells = [str(len(mine)), str(sum(len(row.full) for row in mine))]
        cells += shown([each for row in mine for each in row.standstill]) + shown([each for row in mine for each in row.full])
        cells.append(f"{sum(row.seconds for row in mine) / len(mine):.1f}")
        cells += [str(sum(getattr(row.samples, what) for row in mine)) for what in ("doubled", "lost", "again")]
        lines.append(f"| {way} | {' | '.join(cells)} | {sum(bool(row.problem) for row in mine)} |")
    return "\n".join(lines)


def versions(peers: Path) -> dict[str, str]:
    """The versions of the libraries."""
    code = "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in ('torch', 'torchft', 'ray')}))"
    found = subprocess.run([str(peers / "python"), "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True, help="the bin of an environment with torchft and Ray Train")
    parser.add_argument("--ways", nargs="+", default=[*WAYS], choices=WAYS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[Row] = []
    for seed in range(given.seed, given.seed + given.rounds):
        for way in given.ways:
            rows.append(measured(way, seed, given.peers))
            print(rows[-1], flush=True)
    print("\n" + table(rows))
    if given.json:
        found = {"seed": given.seed, "versions": versions(given.peers), "rows": [asdict(row) for row in rows]}
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
