"""More processes than a host can hold are refused before the first is started."""

from __future__ import annotations

import resource

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.processes import Processes, capacity
from polyrhythm.training.run import run


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


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("_threads", "20 processes need at least 40 threads, and this host allows 30 more"),
        ("_memory", "need at least 240 MB of memory, and"),
    ],
)
def test_threads_and_memory_are_looked_at_too(monkeypatch: pytest.MonkeyPatch, limit: str, words: str) -> None:
    monkeypatch.setattr(capacity, limit, lambda: 30)
    with pytest.raises(CompositionError, match=words):
        capacity.check(20)


def test_what_the_kernel_does_not_say_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "_text", lambda path: "")
    monkeypatch.setattr(capacity, "_open_files", lambda: float("inf"))
    capacity.check(100)


def test_what_the_kernel_says_is_understood() -> None:
    assert 0 < capacity._memory() < 1e15
    assert 0 < capacity._threads() < 1e9
