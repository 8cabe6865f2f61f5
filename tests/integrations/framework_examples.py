"""The examples of other libraries' loops, their single-process originals, and the checks of each."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.workloads.load import load_workload

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "frameworks"
ORIGINALS = EXAMPLES / "originals"
WORKERS, BATCH = 2, 16
VIRTUAL = Simulator(network="slow")
CLOSE = 1e-5
"""How far the losses of one process and of several that share its batches may be from each other."""


def changed(name: str) -> int:
    """Lines of code that were added, taken away or are another in an example."""
    before, after = ([line for line in (folder / f"{name}.py").read_text().splitlines() if line] for folder in (ORIGINALS, EXAMPLES))
    edits = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for kind, a, b, c, d in edits if kind != "equal")


def original_loss(name: str) -> float:
    """What the single process prints, with batches as large as those of all workers together."""
    code = compile((ORIGINALS / f"{name}.py").read_text(encoding="utf-8"), f"{name}.py", "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed, _arguments(WORKERS * BATCH):
        exec(code, {"__name__": "__main__"})
    return loss_in(printed.getvalue())


def loss_in(text: str) -> float:
    """The last loss that was printed."""
    return float(re.findall(r"loss: ([0-9.]+)", text)[-1])


def trained(name: str, system: str = "allreduce", on: Runtime = VIRTUAL, workers: int = WORKERS) -> Run:
    """One epoch of the example."""
    with _arguments(BATCH):
        return run(load_workload(str(EXAMPLES / f"{name}.py"), {}), workers=workers, strategy=system, on=on, seed=1)


def _arguments(batch_size: int) -> Any:
    return patch("sys.argv", ["example.py", "--epochs", "1", "--batch-size", str(batch_size)])
