"""What all engines promise, as they are listed."""

from __future__ import annotations

from typing import Any

import pytest

import polyrhythm as pr
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.launchers import ENGINES, find, mpi, slurm, torchrun
from polyrhythm.launchers.protocol import TaskOrder

FIXED = TaskOrder("127.0.0.1", 1, "00", 2)
CHANGING = TaskOrder("127.0.0.1", 1, "00", 2, changes=True, replaces=True)
NEEDED = {"kubernetes": {"image": "trainer:1"}}


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_starts_single_tasks_again(name: str) -> None:
    engine = find(name)(**NEEDED.get(name, {}))
    assert engine.kind == name
    assert engine.starts_alone


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_refuses_servers_in_a_crew_that_changes_before_anything_is_started(name: str) -> None:
    with pytest.raises(pr.errors.CompositionError, match="has servers"):
        pr.run(print, workers=Crew(2, 4), strategy="ssp", on=find(name)(**NEEDED.get(name, {})))


@pytest.mark.parametrize("module", [slurm, mpi, torchrun])
@pytest.mark.parametrize(("order", "kept"), [(FIXED, False), (CHANGING, True)], ids=["one number", "a crew that changes"])
def test_an_engine_that_ends_all_tasks_for_one_keeps_those_of_a_crew_that_changes(
    module: Any, order: TaskOrder, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(module, "CommandTasks", lambda command, *rest, **more: started.append(command))
    find(module.__name__.rpartition(".")[2])().start(order)
    assert (started[0][-1] == "keep") is kept
    assert ("--no-kill" in started[0]) is (kept and module is slurm)
