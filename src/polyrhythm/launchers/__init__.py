"""Runs on the engines that people have: each places, starts and restarts the processes, which then join as workers."""

from __future__ import annotations

import importlib
from typing import Any

ENGINES = {name: f"polyrhythm.launchers.{name}" for name in ("ray", "spark", "slurm", "kubernetes", "mpi", "torchrun")}
"""The engines by the names that `--on` takes, and the module of each, which has its runtime under that name with a capital."""

LAUNCHED = ("slurm", "kubernetes", "torchrun", "mpi")
"""Those that can start the workers without a driver (`Launchable`)."""


def engine(name: str) -> type[Any]:
    """The runtime of the engine `name`."""
    kind: type[Any] = getattr(importlib.import_module(ENGINES[name]), name.capitalize())
    return kind
