"""Where nobody waits for anybody, a run goes on without a worker that crashes, at whatever moment it does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kinds import sampled
from torch import nn
from torch.nn import functional as F
from toy import SLOW, Toy, data, trained

from polyrhythm import systems
from polyrhythm.consistency import Bounded, LocalSteps, SoftSync
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.hardware.faults import Crash
from polyrhythm.merge import Mean
from polyrhythm.topology import Server

TOLERANT = [name for name in systems.SYSTEMS if systems.find(name).tolerates_loss]
STRICT = [name for name in systems.SYSTEMS if not systems.find(name).tolerates_loss and name != "single"]
TOY = Toy(epochs=6, batch_size=4)


@pytest.mark.parametrize(
    "moment", [0.0, 0.021, 0.07, 0.13, *(pytest.param(at, marks=pytest.mark.long) for at in (0.05, 0.11, 0.2, 0.29, 0.4, 0.55))]
)
@pytest.mark.parametrize("system", sampled(TOLERANT))
def test_the_others_go_on_without_a_crashed_worker(system: str, moment: float) -> None:
    faults = (Crash("worker/3", at=moment), Crash("worker/1", at=moment * 1.1))
    run = trained(TOY, 4, system, Simulator(network=SLOW, faults=faults))
    assert run.summary.steps == 36
    assert set(run.summary.lost) <= {"worker/1", "worker/3"}


@pytest.mark.parametrize("system", sampled(STRICT))
def test_where_all_wait_for_all_a_crash_ends_the_run_and_names_the_worker(system: str) -> None:
    with pytest.raises(WorkerFailed, match="worker/2"):
        trained(TOY, 4, system, Simulator(network=SLOW, faults=(Crash("worker/2", at=0.05),)))


@pytest.mark.parametrize("system", sampled(TOLERANT))
def test_worker_0_and_servers_hold_the_result_so_their_loss_ends_the_run(system: str) -> None:
    with pytest.raises(WorkerFailed, match="worker/0"):
        trained(TOY, 3, system, Simulator(network=SLOW, faults=(Crash("worker/0", at=0.05),)))


class WithBuffers:
    """A training function whose model has batch-norm statistics, which worker 0 tells the others at the beginning."""

    def __call__(self, worker: Any) -> None:
        model = nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.Linear(12, 3))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for _ in range(6):
            for x, y in worker.batches(data(), batch_size=4):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()


@pytest.mark.parametrize("moment", [0.0, pytest.param(0.021, marks=pytest.mark.long), 0.045, pytest.param(0.09, marks=pytest.mark.long)])
@pytest.mark.parametrize("system", sampled(TOLERANT))
def test_a_worker_lost_while_buffers_are_averaged_delays_no_other(system: str, moment: float) -> None:
    on = Simulator(network=SLOW, faults=(Crash("worker/2", at=moment),))
    assert run(WithBuffers(), workers=4, strategy=system, on=on).summary.steps == 36


def test_a_group_that_could_never_fill_is_refused_however_often_workers_push() -> None:
    strategy = Strategy(consistency=SoftSync(2, LocalSteps(4, Bounded(1))), topology=Server(1), merge=Mean())
    with pytest.raises(CompositionError, match="would wait for ever"):
        trained(TOY, 5, strategy)


def test_a_model_in_half_precision_is_refused_with_the_remedy() -> None:
    def train(worker: Any) -> None:
        model = nn.Linear(10, 3).to(torch.bfloat16)
        worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))

    with pytest.raises(CompositionError, match=r"torch\.autocast"):
        run(train, workers=2, strategy="onebit", on=Simulator(network=SLOW))
