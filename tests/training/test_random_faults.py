"""Workers are killed, stopped, or leave, or disks are full, at random moments: no hang, no process left, no wrong model called right."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from leftovers import descendants, soon

from polyrhythm import systems
from polyrhythm.core.kernel.location import unplaced
from polyrhythm.core.records.load import load
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.run import run

from .faulty_worker import TIMEOUT, WORKERS, train
from .scripts import Ended, Forker, forker

SCRIPT = str(Path(__file__).with_name("faulty_worker.py"))
STATED = TIMEOUT + 40.0
"""Seconds from the start: coming together takes a few, longer where servers are started and the machine is busy."""
SYSTEMS = [name for name in systems.SYSTEMS if name != "single"]
STEPS = 24


@pytest.fixture(scope="module")
def ranks() -> Iterator[Forker]:
    with forker() as made:
        yield made


@functools.cache
def expected(system: str) -> str:
    """The digest of the weights that the whole run gives, where that does not depend on the order of messages."""
    outcome = run(lambda worker: train(worker, "nothing", 0, 0), workers=WORKERS, strategy=system, on=Simulator(network=Instant()), seed=5)
    return outcome.summary.weights_sha256 or ""


def has_server(system: str, rank: int) -> bool:
    """True if a server runs with the joined worker of `rank`, and is lost with it."""
    colocated = StrategyPlan.of(systems.find(system), unplaced(WORKERS), 5).colocated
    return rank in [shard % WORKERS if home is None else home for shard, home in enumerate(colocated)]


def readable(directory: Path) -> bool:
    """Whether every record below `directory`, of the run or of its joined workers, can be read, with its steps or its error."""
    records = [path.parent for path in directory.glob("**/run.json")]
    return bool(records) and all(load(record).summary.system for record in records)


def inject(seed: int, ranks: Forker, directory: Path) -> None:
    draw = random.Random(seed)
    how, deed = draw.choice(["run", "join"]), draw.choice(["kill", "stop", "exit", "full"])
    system, victim, step = draw.choice(SYSTEMS), draw.randrange(WORKERS), draw.randrange(1, STEPS + 1)
    report = f"seed {seed}: {how} {system} {deed} worker/{victim} at step {step}"
    directory.mkdir()
    pids = ranks.start(directory, [SCRIPT, how, system, deed, str(victim), str(step)], WORKERS if how == "join" else 1)
    stopped = how == "join" and deed == "stop"
    loss = deed == "kill" and victim > 0 and systems.find(system).tolerates_loss and not (how == "join" and has_server(system, victim))
    ended = ranks.wait(directory, pids, STATED, enough=WORKERS - 1 if stopped else 0)
    report = "\n".join([report, *(f"{rank}: {end.code} {end.err[-600:]}" for rank, end in enumerate(ended))])
    for rank, end in enumerate(ended):
        assert end.code is not None or (stopped and rank == victim), f"hangs: {report}"
        _check_model(how, system, rank, end, directory, report, lost=loss)
    if deed != "full":
        others = [end.code for rank, end in enumerate(ended) if how == "run" or rank != victim]
        assert others == [0 if loss else 1] * len(others), report
    assert soon(lambda: not descendants(ranks.pid)), f"processes are left: {report}"
    assert readable(directory / "record"), report


def _check_model(how: str, system: str, rank: int, end: Ended, directory: Path, report: str, *, lost: bool) -> None:
    """Who ends with 0 has the right model: the only one there is where nobody was lost, or the same as all others who say so."""
    if end.code != 0:
        return
    found = (directory / f"final.{'run' if how == 'run' else rank}").read_text()
    strategy = systems.find(system)
    if not strategy.order_matters and not lost:
        assert found == expected(system), f"a wrong model: {report}"
    elif strategy.ends_alike and how == "join":
        assert {path.read_text() for path in directory.glob("final.*")} == {found}, f"several models: {report}"


FEW, FORTY = (105, 127), range(40)


@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="a few"), pytest.param(FORTY, id="forty", marks=pytest.mark.long)])
def test_random_faults_end_in_the_right_model_or_in_an_error(seeds: Iterable[int], ranks: Forker, tmp_path: Path) -> None:
    for seed in seeds:
        inject(seed, ranks, tmp_path / str(seed))
