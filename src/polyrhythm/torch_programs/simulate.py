"""`simulate`: a program of torch.distributed in virtual time, with real values."""

from __future__ import annotations

from contextlib import ExitStack

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.torch_programs.clocks import virtual_clocks
from polyrhythm.torch_programs.in_place_of_torch import running
from polyrhythm.torch_programs.program import Main, job_of


def execute(main: Main, ranks: int, on: Simulator, record: Recorder) -> Ending:
    """Run `main` at each of the `ranks`."""
    with ExitStack() as placed:
        placed.enter_context(running())
        placed.enter_context(virtual_clocks())
        return on.execute(job_of(main, ranks, on.seed), record)
