"""A training function and all that decides its run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.training.work import Training


def test_a_run_that_is_started_again_before_its_first_checkpoint_begins_where_it_was_to_begin(tmp_path: Path) -> None:
    wanted = Checkpoints(tmp_path / "new", every=1, resume=tmp_path / "old")
    training = Training(lambda worker: None, systems.resolve("allreduce"), Crew.of(2), 0, wanted)
    assert training.continued().checkpoints == wanted


def test_a_newcomer_whose_variables_cannot_follow_is_lost_and_then_the_run() -> None:
    def train(worker: pr.Worker) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        count = 0
        for _ in worker.epochs(2):
            for (part,) in worker.batches((torch.ones(96, 1),), batch_size=4):
                optimizer.zero_grad()
                model(part).sum().backward()
                optimizer.step()
                count += 1

    with pytest.raises(
        pr.errors.PolyrhythmError, match=r"worker/\d+ has \d in the variable count .*own = worker\.variables\(count=\.\.\.\)"
    ):
        pr.run(train, workers=pr.Crew(1, 3), on=pr.Simulator(faults=(pr.hardware.Crash("worker/2", step=2),)))
