"""A task that an engine's command has started; its rank is in the variables of that engine."""

from __future__ import annotations

import os

import msgspec

from polyrhythm.core.processes.rendezvous.rank_environment import launched_rank
from polyrhythm.launchers.commands import ORDER
from polyrhythm.launchers.protocol import TaskOrder
from polyrhythm.launchers.task import serve

if __name__ == "__main__":
    order = msgspec.json.decode(os.environ.pop(ORDER), type=TaskOrder)
    serve(order, launched_rank())
