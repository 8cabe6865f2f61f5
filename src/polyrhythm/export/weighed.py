"""The seconds and the memory of a written model, in a process that has its runtime and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from polyrhythm.errors import ExportError
from polyrhythm.export.program import ModelProgram
from polyrhythm.export.target import ExportTarget

_SCRIPT = Path(__file__).with_name("openers") / "time_model.py"


@dataclass(frozen=True, slots=True)
class Weighed:
    """What one sample takes on this machine, on one thread: median and 99th percentile of the seconds of `runs`, and bytes of memory."""

    runs: int
    median_seconds: float
    p99_seconds: float
    memory: int


def weighed(file: Path, program: ModelProgram, target: ExportTarget, runs: int) -> Weighed:
    """Time `runs` calls of the model in `file` with one sample. Raises ExportError where its runtime cannot run it."""
    with TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        arrays = {name: each.numpy() for name, each in zip(program.inputs, program.single, strict=True)}
        np.savez(inputs, allow_pickle=False, **arrays)
        done = subprocess.run(
            [sys.executable, str(_SCRIPT), str(target.opener), str(file), str(inputs), str(runs)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise ExportError(
            f"{file.name} was written, and its runtime cannot run it here: {last}. Check that the runtime is installed whole."
        )
    found = json.loads(done.stdout.splitlines()[-1])
    seconds = sorted(found["seconds"])
    return Weighed(len(seconds), median(seconds), seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))], found["memory"])
