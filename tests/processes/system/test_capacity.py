"""More processes than a host can hold are refused before the first is started."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from polyrhythm.core.processes import Processes
from polyrhythm.core.processes.system import capacity
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError


def never(worker: object) -> None:
    raise AssertionError("it ran")


@pytest.mark.parametrize("workers", [10**6, 10**12])
@pytest.mark.parametrize("system", ["allreduce", "ssp", "gossipgrad"])
def test_a_million_processes_are_refused_with_a_sentence(workers: int, system: str) -> None:
    with pytest.raises(CompositionError, match=r"need at least .* start fewer workers|is more than a machine can hold"):
        run(never, workers=workers, strategy=system, on=Processes())


def test_as_many_processes_as_there_may_be_open_files_are_refused() -> None:
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, allowed[1]))
    try:
        with pytest.raises(CompositionError, match=r"300 processes need at least 332 open files, and 256 are allowed: .*`ulimit -n`"):
            capacity.check(300)
        capacity.check(8)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)


GROUP = "sys/fs/cgroup/a container"
ROOMY = {
    "proc/self/cgroup": "12:cpuset:/old\n0::/a container\n",
    "proc/loadavg": "0.10 0.20 0.30 1/170 4711\n",
    "proc/sys/kernel/pid_max": "4194304\n",
    "proc/sys/kernel/threads-max": "200\n",
    "proc/meminfo": "MemTotal:       9000000 kB\nMemAvailable:   1000000 kB\nSwapFree:             0 kB\n",
    f"{GROUP}/pids.max": "max\n",
    f"{GROUP}/pids.current": "12\n",
    f"{GROUP}/memory.max": "1000000000\n",
    f"{GROUP}/memory.current": "900000000\n",
    f"{GROUP}/memory.stat": "anon 99\nfile 800000000\ninactive_file 500000000\nactive_file 300000000\nslab 7\n",
}


def write(root: Path, changes: dict[str, str]) -> Path:
    for name, text in (ROOMY | changes).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_what_files_have_left_in_memory_refuses_no_run(tmp_path: Path) -> None:
    capacity.check(15, write(tmp_path, {}))
    assert capacity.Host(tmp_path).memory() == 900_000_000


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"proc/sys/kernel/threads-max": "199"}, "15 processes need at least 30 threads, and this host allows 29 more"),
        ({f"{GROUP}/pids.max": "20"}, "need at least 30 threads, and this host allows 8 more"),
        ({f"{GROUP}/memory.stat": "anon 99\n"}, "need at least 180 MB of memory, and this host has 100 MB left"),
        ({f"{GROUP}/memory.max": "max", "proc/meminfo": "MemAvailable: 90000 kB\n"}, "this host has 92.2 MB left"),
    ],
    ids=["threads", "threads of a container", "memory of a container", "memory"],
)
def test_threads_and_memory_are_looked_at_too(changes: dict[str, str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match=sentence):
        capacity.check(15, write(tmp_path, changes))


def test_what_the_kernel_does_not_report_refuses_nothing(tmp_path: Path) -> None:
    capacity.check(100, tmp_path)


def test_what_the_kernel_reports_is_understood() -> None:
    host = capacity.Host(Path("/"))
    assert 0 < host.memory() < 1e15
    assert 0 < host.threads() < 1e9
