"""A script in which one worker meets with a deed at one of its steps: `faulty_worker.py run|join SYSTEM DEED VICTIM STEP`.

Whoever ends well writes the digest of its final weights into final.RANK, or final.run.
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from toy import data, network

import polyrhythm as pr
from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.records.progress import Watch
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.tensors import digest
from polyrhythm.core.training.run import attempt
from polyrhythm.systems import find

WORKERS = 3
TIMEOUT = 3.0
"""Where a worker is stopped. Elsewhere there is none: a machine that is busy with other things may hold up everybody for as long."""


def fill_up_the_disk() -> None:
    """As far as this process is concerned; what it opened before may grow by a little."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))


DEEDS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "exit": lambda: sys.exit(3),
    "full": fill_up_the_disk,
    "nothing": lambda: None,
}


def bearing(deed: str) -> float | None:
    """For how long to bear with who stands still."""
    return TIMEOUT if deed == "stop" else None


def train(worker: Any, deed: str, victim: int, step: int) -> torch.nn.Module:
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for _ in range(3):
        for x, y in worker.batches(data(), batch_size=4):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            time.sleep(0.002)
            if (worker.rank, worker.clock) == (victim, step):
                DEEDS[deed]()
    worker.finish()
    return model


def run(strategy: Strategy, deed: str, victim: int, step: int) -> None:
    def watch(event: AnyEvent) -> None:
        if deed == "full" and isinstance(event, Stepped) and (event.actor, event.clock) == (f"worker/{victim}", step):
            fill_up_the_disk()  # the record is this process's

    watching: Watch = watch
    inside = "nothing" if deed == "full" else deed
    tried = attempt(
        lambda worker: train(worker, inside, victim, step) and None,
        workers=WORKERS,
        strategy=strategy,
        on=pr.Processes(timeout=bearing(deed)),
        seed=5,
        directory="record",
        watch=watching,
    )
    if tried.error is not None:
        raise tried.error
    Path("final.run").write_text(tried.outcome.summary.weights_sha256 or "")


def main() -> None:
    how, system, deed, victim, step = sys.argv[1:6]
    if how == "run":
        run(find(system), deed, int(victim), int(step))
        return
    worker = pr.join(system, seed=5, timeout=bearing(deed), directory="record")
    model = train(worker, deed, int(victim), int(step))
    Path(f"final.{worker.rank}").write_text(digest(model.state_dict().items()))


if __name__ == "__main__":
    main()
