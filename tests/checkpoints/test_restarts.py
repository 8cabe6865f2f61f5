"""A run that is started again and again without a further step is ended, whatever starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.core.checkpoints.restarts import NAME, RestartCount
from polyrhythm.errors import CompositionError, NoProgressError, RunError
from polyrhythm.launchers.batch_script import batch_script
from polyrhythm.launchers.driver import _passing
from polyrhythm.launchers.submission import WorkerCommand
from polyrhythm.tools.cli.failures import exit_code


@pytest.mark.parametrize("restarts", [0, 1, 3])
@pytest.mark.parametrize("step", [0, 40])
def test_so_many_restarts_may_take_no_step_and_the_next_is_refused_once(restarts: int, step: int, tmp_path: Path) -> None:
    count = RestartCount(tmp_path, restarts)
    for _ in range(2):
        for _ in range(restarts + 1):
            count.started(step)
        with pytest.raises(NoProgressError, match=rf"again {restarts} times from its {'checkpoint of step 40' if step else 'beginning'}"):
            count.started(step)


def test_a_step_or_a_later_checkpoint_begins_the_count_anew(tmp_path: Path) -> None:
    count = RestartCount(tmp_path, 1)
    for step in (0, 0, 20, 20, 40):
        count.started(step)
    for _ in range(5):
        count.started(40)
        count.stepped()
    assert not (tmp_path / NAME).exists()


def test_a_file_that_was_cut_off_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"step":')
    RestartCount(tmp_path, 0).started(7)


class Failing:
    """Fails before the first of its steps while there are `failures`."""

    def __init__(self, failures: Iterator[bool]) -> None:
        self.failures = failures

    def __call__(self, worker: pr.Worker) -> None:
        model = nn.Linear(4, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        if worker.is_first and next(self.failures):
            raise RuntimeError("no memory")
        for x, y in worker.batches((torch.ones(48, 4), torch.ones(48, 1)), batch_size=2):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()


def start(train: Failing, directory: Path) -> pr.Run:
    return pr.run(train, workers=2, on=pr.Simulator(), seed=3, checkpoints=pr.Checkpoints(directory, every=5, resume=True, restarts=2))


def test_a_run_that_fails_before_its_first_step_ends_at_its_third_restart(tmp_path: Path) -> None:
    train = Failing(iter([False, *[True] * 3, False]))
    assert start(train, tmp_path).summary.steps == 12
    for path in tmp_path.glob("step-*"):  # of a run that was cut off after step 5
        if path.name != "step-00000005":
            path.rename(tmp_path / f".{path.name}")
    for _ in range(3):
        with pytest.raises(RunError, match="no memory"):
            start(train, tmp_path)
    with pytest.raises(NoProgressError, match="again 2 times from its checkpoint of step 5"):
        start(train, tmp_path)
    assert start(train, tmp_path).summary.steps == 12
    assert not (tmp_path / NAME).exists()


def test_a_run_that_is_over_may_be_resumed_as_often_as_one_likes(tmp_path: Path) -> None:
    for _ in range(5):
        assert start(Failing(iter([False])), tmp_path).summary.steps == 12


def test_launchers_do_not_start_it_again_and_commands_have_an_exit_code_for_it() -> None:
    error = NoProgressError("The run comes no further.")
    assert (_passing(error), exit_code(error), exit_code(RunError("It failed."))) == (False, 93, 1)
    assert "code == 93" in batch_script(WorkerCommand("job", 2, ["a"], ["a"]), [], restarts=9, threads=1)


def test_a_number_of_restarts_is_checked(tmp_path: Path) -> None:
    for restarts in (-1, 1.5, None):
        with pytest.raises(CompositionError, match=r"restarts=.*: give"):
            pr.Checkpoints(tmp_path, restarts=restarts)  # type: ignore[arg-type]
