"""Kills, stops, terminations and cut lines: does every run end, leave nothing, and say why?

    python benchmarks/endings.py --count 150 --seed 1        the whole, some half an hour
    python benchmarks/endings.py --count 6                   a handful

A case is a launcher, a system and an attack, drawn by the seed. The attack comes at a random moment of the training. A case is right if
all its processes have ended, its record says why, and no process, shared memory, socket or temporary file is left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from polyrhythm.core.records.load import load

_TORCHS = ("torchelastic_", "torchinductor_")
"""Directories that torch leaves behind in every program."""
JOB = str(Path(__file__).with_name("endings_job.py"))
MARK = "POLYRHYTHM_ENDINGS"
STARTING, ENDING, SAYING = 180.0, 60.0, 10.0
"""Seconds: to train, to end, to say why."""
SYSTEMS = (
    "allreduce", "ssp", "downpour", "mxnet", "softsync", "easgd", "local-sgd", "diloco", "gossipgrad", "sgp", "adpsgd", "byteps",
    "powersgd",
    "signsgd", "sparknet", "strom", "fedavg", "horovod", "bigdl", "paine", "rudra", "ako", "gaia", "project-adam", "hogwild", "dgc",
    "async-local-sgd", "zhang-asgd",
)  # fmt: skip


@dataclass(frozen=True)
class Processes:
    """The processes of a case by role: `top` are those that the case has started itself."""

    top: list[int]
    workers: list[int]
    servers: list[int]
    others: list[int]

    @property
    def everybody(self) -> list[int]:
        return [*self.others, *self.workers, *self.servers, *(pid for pid in self.top if pid not in self.workers)]


@dataclass
class Result:
    """How a case ended: seconds until its processes had and until its records said why; what was left."""

    launcher: str
    attack: str
    system: str
    ended: float | None = None
    said: float | None = None
    codes: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    unsaid: int = 0
    left: list[str] = field(default_factory=list)
    trouble: str = ""

    @property
    def right(self) -> bool:
        return not self.trouble and self.ended is not None and not self.left


def send(number: int) -> Callable[[int], None]:
    def kill(pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    return kill


def to(role: Callable[[Processes], list[int]], *numbers: int, gap: float = 0.3) -> Callable[[Processes, random.Random], None]:
    """Send these signals, one after the other, to one of `role`; to all of it where that is everybody or all tops."""

    def attack(there: Processes, draw: random.Random) -> None:
        pids = role(there)
        chosen = pids if role in (everybody, tops) else [draw.choice(pids)]
        for place, number in enumerate(numbers):
            time.sleep(gap if place else 0.0)
            for pid in chosen:
                send(number)(pid)

    return attack


def tops(there: Processes) -> list[int]:
    return there.top


def everybody(there: Processes) -> list[int]:
    return there.everybody


def workers(there: Processes) -> list[int]:
    return there.workers


def servers(there: Processes) -> list[int]:
    return there.servers or there.workers


def others(there: Processes) -> list[int]:
    return there.others or there.workers


TERM, HUP, INT, QUIT = signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT
KILL, STOP, CONT, USR1 = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGUSR1
ATTACKS: dict[str, Callable[[Processes, random.Random], None]] = {
    "SIGTERM": to(tops, TERM),
    "SIGHUP": to(tops, HUP),
    "SIGINT": to(tops, INT),
    "SIGQUIT": to(tops, QUIT),
    "SIGTERM twice": to(tops, TERM, TERM),
    "SIGINT twice": to(tops, INT, INT),
    "SIGTERM, SIGINT": to(tops, TERM, INT),
    "SIGSTOP, SIGTERM, SIGCONT": to(tops, STOP, TERM, CONT, gap=0.5),
    "SIGTERM to all": to(everybody, TERM),
    "SIGKILL": to(tops, KILL),
    "SIGKILL a worker": to(workers, KILL),
    "SIGKILL a server": to(servers, KILL),
    "SIGKILL the fork server": to(others, KILL),
    "SIGTERM a worker": to(workers, TERM),
    "SIGTERM a server": to(servers, TERM),
    "SIGSTOP a worker": to(workers, STOP, CONT, gap=10.0),
    "a cut line": to(workers, USR1),
}
LAUNCHERS = {
    "run": list(ATTACKS),
    "script": ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGTERM twice", "SIGKILL", "SIGTERM to all", "SIGKILL a worker"],
    "simulator": ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGTERM twice", "SIGSTOP, SIGTERM, SIGCONT"],
    "compare": ["SIGTERM", "SIGINT", "SIGHUP", "SIGTERM to all"],
    "join": [name for name in ATTACKS if name not in ("SIGKILL", "SIGKILL the fork server")],
    "srun-like": list(ATTACKS),
    "torchrun": [name for name in ATTACKS if name not in ("SIGQUIT", "SIGTERM twice", "SIGINT twice", "SIGTERM, SIGINT")],
}
SCRIPT = """
import sys; sys.path.insert(0, {folder!r})
import endings_job, polyrhythm as pr
pr.run(endings_job.train, workers={workers}, strategy={system!r}, directory={out!r}, checkpoints=pr.Checkpoints({ck!r}))
"""
SRUN = """
import os, signal, subprocess, sys
n = int(sys.argv[1])
def forward(number, frame):
    for each in ranks: each.send_signal(number)
ranks = [
    subprocess.Popen(sys.argv[2:], env={**os.environ, "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(n), "SLURM_STEP_NUM_NODES": "1"})
    for rank in range(n)
]
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT): signal.signal(number, forward)
sys.exit(max(abs(each.wait()) for each in ranks))
"""


class Case:
    """One run of `system` under `launcher`, in a folder of its own, that suffers `attack`."""

    def __init__(self, launcher: str, attack: str, system: str, seed: int) -> None:
        self.result = Result(launcher, attack, system)
        self.draw = random.Random(seed)
        self.mark = f"{os.getpid()}-{seed}"
        self.folder = Path(tempfile.mkdtemp(prefix="endings-"))
        self.out, self.temporary = self.folder / "out", self.folder / "tmp"
        self.temporary.mkdir()
        self.count = self.draw.choice((2, 3))
        self.ck = str(self.folder / "ck") if self.draw.random() < 0.5 else None
        self.started: list[subprocess.Popen[bytes]] = []

    def commands(self) -> Iterator[tuple[list[str], dict[str, str]]]:
        """What is started, with which variables."""
        launcher, system = self.result.launcher, self.result.system
        given = ["--system", system, "--out", str(self.out), *(["--checkpoint", self.ck] if self.ck else [])]
        given += ["--timeout", "4"] if "SIGSTOP a" in self.result.attack else []
        me, python = [sys.executable, "-m", "polyrhythm"], sys.executable
        match launcher:
            case "run":
                yield [*me, "run", JOB, *given, "--workers", str(self.count), "--quiet"], {}
            case "simulator":
                yield [*me, "run", JOB, *given, "--workers", str(self.count), "--on", "simulator", "--quiet"], {}
            case "compare":
                two = ["--systems", f"{system},allreduce", "--out", str(self.out), "--jobs", "2", "--on", "simulator", "--quiet"]
                yield [*me, "compare", JOB, *two, "--workers", str(self.count)], {}
            case "script":
                text = SCRIPT.format(folder=str(Path(JOB).parent), workers=self.count, system=system, out=str(self.out), ck=self.ck)
                yield [python, "-c", text], {}
            case "join":
                with socket.create_server(("127.0.0.1", 0)) as free:
                    port = str(free.getsockname()[1])
                for rank in range(self.count):
                    place = {"RANK": str(rank), "WORLD_SIZE": str(self.count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                    yield [*me, "join", JOB, *given], place
            case "srun-like":
                job = {"SLURM_JOB_ID": str(self.draw.randrange(10**6))}
                yield [python, "-c", SRUN, str(self.count), *me, "join", JOB, *given], job
            case "torchrun":
                agent = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.count}", "--max-restarts=0"]
                yield [*agent, "-m", "polyrhythm", "join", JOB, *given], {}

    def play(self) -> Result:
        """Start it, attack it, and see what becomes of it."""
        shm = set(os.listdir("/dev/shm"))
        try:
            self._start()
            if self._trains():
                time.sleep(self.draw.random())
                there = self._processes()
                began = time.monotonic()
                ATTACKS[self.result.attack](there, self.draw)
                self._watch(began)
            self._clean(shm)
        finally:
            for pid in self._marked():
                send(KILL)(pid)
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.result

    def _start(self) -> None:
        common = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        for command, variables in self.commands():
            with (self.folder / f"log-{len(self.started)}").open("wb") as log:
                environment = {**common, **variables}
                self.started.append(
                    subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
                )

    def _records(self) -> list[Path]:
        return sorted(path.parent for path in self.out.rglob("run.json"))

    def _trains(self) -> bool:
        """Whether every worker with a record of its own takes steps before long."""
        deadline = time.monotonic() + STARTING
        many = self.count if self.result.launcher in ("join", "srun-like", "torchrun") else 2 if self.result.launcher == "compare" else 1
        while time.monotonic() < deadline:
            events = list(self.out.rglob("events.jsonl"))
            if len(events) >= many and all('"Stepped"' in path.read_text(errors="replace") for path in events):
                return True
            if any(each.poll() is not None for each in self.started):
                break
            time.sleep(0.1)
        self.result.trouble = f"it did not train: {self._log()[-300:]}"
        return False

    def _watch(self, began: float) -> None:
        """Until all has ended; a run that goes on after a loss, or in spite of a cut line, is asked to end when its record tells."""
        asked = False
        while time.monotonic() - began < ENDING:
            now = time.monotonic() - began
            if self.result.said is None and self._said():
                self.result.said = now
            if all(each.poll() is not None for each in self.started) and not self._marked():
                self.result.ended = self.result.ended if asked else time.monotonic() - began
                break
            if not asked and (self._continues() or now > 8) and self._survivable():
                asked, self.result.ended, self.result.said = True, now, self.result.said or now
                self.result.texts.append("the run goes on")
                for each in self.started:
                    send(TERM)(each.pid)
            time.sleep(0.05)
        else:
            self.result.trouble = "it does not end"
        while self.result.said is None and time.monotonic() - began < SAYING + (self.result.ended or 0.0):
            if self._said():
                self.result.said = time.monotonic() - began
            time.sleep(0.05)
        self.result.codes = [each.poll() or 0 for each in self.started]
        for path in self._records():
            outcome = load(path)
            self.result.texts.append(outcome.summary.error or outcome.state)
            self.result.unsaid += outcome.state == "running"

    def _survivable(self) -> bool:
        """Whether some systems survive it; where there is no server, a worker takes its place."""
        return self.result.attack.endswith((" a worker", " a server")) or self.result.attack == "a cut line"

    def _continues(self) -> bool:
        """Whether a record tells of a loss, without its run having ended."""
        return any('"Faulted"' in path.read_text(errors="replace") for path in self.out.rglob("events.jsonl"))

    def _said(self) -> bool:
        """Whether no record is that of a running run any more."""
        for path in self._records():
            with suppress(OSError, ValueError):
                if json.loads((path / "run.json").read_text())["state"] != "running":
                    continue
            return False
        return True

    def _marked(self) -> list[int]:
        """Processes with this case's mark in their environment."""
        wanted, found = f"{MARK}={self.mark}\0".encode(), []
        for entry in os.listdir("/proc"):
            with suppress(OSError):
                if entry.isdecimal() and wanted in Path(f"/proc/{entry}/environ").read_bytes() + b"\0":
                    found.append(int(entry))
        return found

    def _processes(self) -> Processes:
        names, parents = {}, {}
        for pid in self._marked():
            with suppress(OSError):
                text = Path(f"/proc/{pid}/stat").read_text()
                names[pid], parents[pid] = text[text.index("(") + 1 : text.rindex(")")], int(text[text.rindex(")") + 2 :].split()[1])
        top = [each.pid for each in self.started]
        launched = self.result.launcher in ("srun-like", "torchrun")
        joined = [pid for pid in parents if parents[pid] in top] if launched else top if self.result.launcher == "join" else []
        forked = [pid for pid, name in names.items() if name.startswith("worker/")]
        served = [pid for pid, name in names.items() if name.startswith("server/")]
        rest = [pid for pid, name in names.items() if name == "polyrhythm" and pid not in (*top, *joined)]
        return Processes(top, forked or joined or top, served, rest)

    def _clean(self, shm: set[str]) -> None:
        """What is left, in the whole system as far as it can be this case's."""
        self.result.left += [f"process {pid}" for pid in self._marked()]
        self.result.left += [f"temporary {path.name}" for path in self.temporary.iterdir() if not path.name.startswith(_TORCHS)]
        self.result.left += [f"lock {path}" for path in self.out.rglob("*.lock")]
        self.result.left += [f"shared memory {name}" for name in set(os.listdir("/dev/shm")) - shm if self.mark in name]

    def _log(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("log-*")))


def cases(count: int, seed: int) -> list[tuple[str, str, str, int]]:
    """Every launcher and every attack as often as any other, with systems in turn."""
    draw = random.Random(seed)
    pairs = [(launcher, attack) for launcher, attacks in LAUNCHERS.items() for attack in attacks]
    chosen: list[tuple[str, str]] = []
    while len(chosen) < count:
        chosen += draw.sample(pairs, len(pairs))
    names = draw.sample(SYSTEMS, len(SYSTEMS))
    return [(*pair, names[place % len(names)], seed * 10_000 + place) for place, pair in enumerate(chosen[:count])]


def table(results: list[Result]) -> str:
    """Launcher by kind of attack."""
    rows: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        rows[result.launcher, result.attack].append(result)
    lines = ["| launcher | attack | cases | ended after: median | maximum | said after: maximum | unfinished records | left | wrong |"]
    lines.append("|---" * 9 + "|")
    for (launcher, attack), found in sorted(rows.items()):
        lines.append(f"| {launcher} | {attack} | {_figures(found)} |")
    return "\n".join([*lines, f"| all | all | {_figures(results)} |"])


def _figures(found: list[Result]) -> str:
    ended, said = [each.ended for each in found if each.ended is not None], [each.said for each in found if each.said is not None]
    times = [
        f"{statistics.median(ended):.1f} s" if ended else "-",
        f"{max(ended):.1f} s" if ended else "-",
        f"{max(said):.1f} s" if said else "-",
    ]
    counts = [sum(each.unsaid for each in found), sum(len(each.left) for each in found), sum(not each.right for each in found)]
    return " | ".join([str(len(found)), *times, *map(str, counts)])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--only", default="", help="a launcher, an attack, or both: torchrun/SIGKILL")
    parser.add_argument("--out", type=Path, help="where all results are written, as JSON")
    given = parser.parse_args()
    for number in (INT, QUIT, HUP):  # a shell, or nohup, has what runs in the background ignore them, and so would all that is started
        signal.signal(number, signal.default_int_handler if number == INT else signal.SIG_DFL)
    launcher, _, attack = given.only.partition("/")
    drawn = cases(given.count, given.seed)
    drawn = [case for case in drawn if not given.only or (case[0] == launcher and (not attack or case[1] == attack)) or case[1] == launcher]
    results: list[Result] = []
    with ThreadPoolExecutor(given.at_once) as pool:
        for place, result in enumerate(pool.map(lambda case: Case(*case).play(), drawn)):
            results.append(result)
            state = "ok" if result.right else f"WRONG {result.trouble} {result.left}"
            times = f"{result.ended or -1:.1f} {result.said or -1:.1f}"
            print(
                f"{place} {result.launcher}, {result.attack}, {result.system}: {state} {times} {result.codes} {result.texts[:2]}",
                flush=True,
            )
            if given.out:
                given.out.write_text(json.dumps([asdict(each) for each in results], indent=1))
    print(f"{len(results)} cases, {len({each.system for each in results})} systems\n\n{table(results)}")
    sys.exit(any(not each.right for each in results))


if __name__ == "__main__":
    main()
