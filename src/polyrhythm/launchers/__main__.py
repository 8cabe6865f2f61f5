"""A task that an engine's command has started; its rank is in the variables of that engine."""

from __future__ import annotations

import os
import sys

import msgspec

from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.processes.rendezvous.rank_environment import launched_rank
from polyrhythm.errors import RunError
from polyrhythm.launchers.commands import FIRST_RANK, KEEP, ORDER
from polyrhythm.launchers.keeper import keep
from polyrhythm.launchers.protocol import NO_DRIVER, TaskOrder
from polyrhythm.launchers.task import serve

if __name__ == "__main__":
    order = msgspec.json.decode(os.environ.pop(ORDER), type=TaskOrder)
    rank = launched_rank() + int(os.environ.get(FIRST_RANK, "0"))
    if sys.argv[1:] == [KEEP] and not keep(worker(rank), order.replaces):
        sys.exit(0)
    try:
        serve(order, rank)
    except RunError as problem:  # what a run has failed with is the driver's to report
        notify(str(problem))
        sys.exit(NO_DRIVER)
