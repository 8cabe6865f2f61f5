"""However one joined process ends, the others learn of it: all end soon, with an exit code and a sentence that fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from .scripts import Ended, Forker, forker

SCRIPT = str(Path(__file__).with_name("joined.py"))
SOON = 40.0
"""Seconds, on a machine that is busy with other things; each takes a few."""


@pytest.fixture(scope="module")
def ranks() -> Iterator[Forker]:
    with forker() as made:
        yield made


def ended(ranks: Forker, directory: Path, system: str, deed: str, workers: int = 2, **environment: str) -> list[Ended]:
    return ranks.run(directory, [SCRIPT, system, deed], workers, SOON, **environment)


FAILURES = {
    "exit 3": (3, "worker/1 failed: it called sys.exit(3)"),
    "exit in finally": (1, "worker/1 failed: it called sys.exit('all is lost')"),
    "raise SystemExit": (3, "worker/1 failed: it raised SystemExit without calling sys.exit"),
    "raise": (1, "worker/1 failed: KeyError: 'no such column'"),
    "_exit": (4, "worker/1 failed: its connections were lost before it had finished"),
    "argparse": (2, "worker/1 failed: it called sys.exit(2)"),
}
OTHERS = ["gossipgrad", "strom", "sparknet"]
QUICK = [("allreduce", deed) for deed in FAILURES] + [("gossipgrad", "exit 3"), ("strom", "argparse")]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.long) for case in product(OTHERS, ["exit 3", "argparse"]) if case not in QUICK)]


@pytest.mark.parametrize(("system", "deed"), CASES)
def test_a_worker_that_ends_badly_is_named_by_all_the_others(system: str, deed: str, ranks: Forker, tmp_path: Path) -> None:
    code, message = FAILURES[deed]
    first, culprit, third = ended(ranks, tmp_path, system, deed, 3)
    assert culprit.code == code
    for other in (first, third):
        assert other.code == 1
        assert message in other.err


@pytest.mark.parametrize("deed", ["exit 3", "argparse"])
def test_who_ends_badly_prints_only_its_own_error(deed: str, ranks: Forker, tmp_path: Path) -> None:
    _, culprit = ended(ranks, tmp_path, "allreduce", deed)
    expected = "usage: joined [-h] [--lr LR]\njoined: error: argument --lr: invalid float value: 'fast'\n" if deed == "argparse" else ""
    assert culprit.err == expected


def test_who_fails_after_its_last_step_fails_the_others_too(ranks: Forker, tmp_path: Path) -> None:
    first, culprit = ended(ranks, tmp_path, "strom", "late")
    assert (first.code, culprit.code) == (1, 5)
    assert first.err == "polyrhythm: worker/1 failed: it called sys.exit(5)\n"


@pytest.mark.parametrize(("system", "deed"), [("strom", "exit 0"), ("allreduce", "finished"), ("gossipgrad", "nothing")])
def test_a_worker_that_ends_well_prints_nothing(system: str, deed: str, ranks: Forker, tmp_path: Path) -> None:
    assert [(rank.code, rank.err) for rank in ended(ranks, tmp_path, system, deed)] == [(0, "")] * 2


@pytest.mark.parametrize("system", ["allreduce", *(pytest.param(name, marks=pytest.mark.long) for name in ("gossipgrad", "sparknet"))])
def test_uneven_numbers_of_steps_are_reported_with_the_remedy(system: str, ranks: Forker, tmp_path: Path) -> None:
    # between two rounds workers need not notice: then both have left
    message = (
        r"worker/1 finished after 5 steps, but worker/0 waits to take another|worker/0 finished after 12 steps and worker/1 after 5 steps"
    )
    for rank in ended(ranks, tmp_path, system, "exit 0"):
        assert rank.code == 1
        assert re.search(rf"({message}): every worker must take the same number of steps; stop together with worker\.any\(", rank.err)


DIFFERENCES = {
    "other system": "worker/0 has topology AllReduce(algorithm=Ring()), worker/1 has topology AllReduce(algorithm=Tree())",
    "other seed": "worker/0 has seed 1, worker/1 has seed 2: start all workers with the same.",
    "other model": "worker/0 has parameter 0.weight float32 (12, 10), worker/1 has parameter 0.weight float32 (3, 10)",
    "drift": "has weights of norm",
}


@pytest.mark.parametrize("deed", DIFFERENCES)
def test_ranks_that_differ_are_refused_with_one_sentence_at_all_of_them(deed: str, ranks: Forker, tmp_path: Path) -> None:
    both = ended(ranks, tmp_path, "allreduce", deed)
    sentences = {next(line for line in rank.err.splitlines() if DIFFERENCES[deed] in line).partition(": ")[2] for rank in both}
    assert [rank.code for rank in both] == [1, 1]
    assert len(sentences) == 1


def test_a_worker_that_stands_still_ends_the_run_after_the_timeout(ranks: Forker, tmp_path: Path) -> None:
    pids = ranks.start(tmp_path, [SCRIPT, "allreduce", "stop"], 2, TIMEOUT="1")
    first, culprit = ranks.wait(tmp_path, pids, SOON, enough=1)
    assert culprit.code is None
    assert first.code == 1
    assert "worker/1 failed: it made no progress within timeout=1 seconds: worker/" in first.err
    assert f"its process {pids[1]} is stopped by a signal" in first.err
