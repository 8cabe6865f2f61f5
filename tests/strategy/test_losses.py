"""Where nobody waits for anybody, a run goes on without a worker that crashes, at whatever moment it does."""

from __future__ import annotations

import pytest
from toy import SLOW, Toy, trained

from polyrhythm import systems
from polyrhythm.errors import WorkerFailed
from polyrhythm.hardware.faults import Crash
from polyrhythm.simulator import Simulator

TOLERANT = [name for name in systems.SYSTEMS if not systems.find(name).essential("worker/3")]
STRICT = [name for name in systems.SYSTEMS if systems.find(name).essential("worker/3") and name != "single"]
TOY = Toy(epochs=6, batch_size=4)


@pytest.mark.parametrize("moment", [0.0, 0.021, 0.05, 0.07, 0.11, 0.13, 0.2, 0.29, 0.4, 0.55])
@pytest.mark.parametrize("system", TOLERANT)
def test_the_others_go_on_without_a_crashed_worker(system: str, moment: float) -> None:
    faults = (Crash("worker/3", at=moment), Crash("worker/1", at=moment * 1.1))
    run = trained(TOY, 4, system, Simulator(network=SLOW, faults=faults))
    assert run.summary.steps == 36
    assert set(run.summary.lost) <= {"worker/1", "worker/3"}


@pytest.mark.parametrize("system", STRICT)
def test_where_all_wait_for_all_a_crash_ends_the_run_and_names_the_worker(system: str) -> None:
    with pytest.raises(WorkerFailed, match="worker/2"):
        trained(TOY, 4, system, Simulator(network=SLOW, faults=(Crash("worker/2", at=0.05),)))


@pytest.mark.parametrize("system", TOLERANT)
def test_worker_0_and_servers_hold_the_result_so_their_loss_ends_the_run(system: str) -> None:
    with pytest.raises(WorkerFailed, match="worker/0"):
        trained(TOY, 3, system, Simulator(network=SLOW, faults=(Crash("worker/0", at=0.05),)))
