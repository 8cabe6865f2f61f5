"""Scripts that join a run, each in a process that ends as the interpreter ends it; forked, so that nothing is imported anew."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ports import reserved_port

FORKER = """
import gc, json, os, runpy, sys
import torch, torch._dynamo, polyrhythm, toy
gc.freeze()  # else each rank goes through all that is imported once more when it ends
for line in sys.stdin:
    order = json.loads(line)
    pids = {}
    for rank in range(order["ranks"]):
        pid = os.fork()
        if pid == 0:
            break
        pids[pid] = rank
    else:
        print(json.dumps(list(pids)), flush=True)
        while pids:
            pid, status = os.waitpid(-1, 0)
            if pid in pids:
                print(json.dumps([pids.pop(pid), os.waitstatus_to_exitcode(status)]), flush=True)
        continue
    os.setsid()
    os.environ.update(order["environment"], RANK=str(rank))
    os.chdir(order["directory"])
    sys.argv = order["arguments"]
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    runpy.run_path(sys.argv[0], run_name="__main__")
    break
"""


@dataclass(frozen=True)
class Ended:
    """How one rank ended: its exit code (negative: a signal), what it wrote, and the seconds it took; None for one that did not."""

    code: int | None
    out: str
    err: str
    seconds: float


class Forker:
    """Runs a script in several ranks at once."""

    def __init__(self) -> None:
        self._read = b""
        self._ports = ExitStack()
        path = os.pathsep.join([*filter(None, sys.path), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )

    @property
    def pid(self) -> int:
        """The process whose children the ranks are."""
        return self._process.pid

    def start(self, directory: Path, words: list[str], ranks: int, **environment: str) -> list[int]:
        """Start `words` in `ranks` processes; their ids, by rank."""
        port = self._ports.enter_context(reserved_port())
        given = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment}
        order = {"ranks": ranks, "environment": given, "directory": str(directory), "arguments": words}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        pids: list[int] = json.loads(self._line(60) or "[]")
        return pids

    def wait(self, directory: Path, pids: list[int], seconds: float, enough: int = 0) -> list[Ended]:
        """How the processes ended; those that have not after `seconds`, or when `enough` others have, are killed."""
        began, codes, times = time.monotonic(), dict.fromkeys(range(len(pids))), dict.fromkeys(range(len(pids)), seconds)
        while sum(code is not None for code in codes.values()) < (enough or len(pids)) and (
            line := self._line(began + seconds - time.monotonic())
        ):
            rank, code = json.loads(line)
            codes[rank], times[rank] = code, time.monotonic() - began
        for rank in [rank for rank, code in codes.items() if code is None]:
            with suppress(ProcessLookupError):
                os.killpg(pids[rank], signal.SIGKILL)
            self._line(60)
        read = {(name, rank): (directory / f"{name}.{rank}").read_text() for name in ("out", "err") for rank in codes}
        return [Ended(code, read["out", rank], read["err", rank], times[rank]) for rank, code in codes.items()]

    def run(self, directory: Path, words: list[str], ranks: int, seconds: float = 60.0, **environment: str) -> list[Ended]:
        """Both."""
        return self.wait(directory, self.start(directory, words, ranks, **environment), seconds)

    def close(self) -> None:
        """End it."""
        self._ports.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _line(self, seconds: float) -> str:
        """The next line; empty if none comes in time."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._process.stdout], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                return ""
            more = os.read(self._process.stdout.fileno(), 65536)
            assert more, "the process that forks has ended"
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()


@contextmanager
def forker() -> Iterator[Forker]:
    """One for a module of tests."""
    made = Forker()
    try:
        yield made
    finally:
        made.close()
