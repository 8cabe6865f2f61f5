"""Runs on the engines that people have: each places, starts and restarts the processes, which then join as workers.

The command line finds an engine here by the name that `--on` gives; in Python its class is a runtime for `run`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyrhythm.launchers.kubernetes import Kubernetes
    from polyrhythm.launchers.mpi import Mpi
    from polyrhythm.launchers.ray import Ray
    from polyrhythm.launchers.slurm import Slurm
    from polyrhythm.launchers.spark import Spark
    from polyrhythm.launchers.torchrun import Torchrun

__all__ = ["ENGINES", "LAUNCHED", "Kubernetes", "Mpi", "Ray", "Slurm", "Spark", "Torchrun"]

ENGINES = {name: f"polyrhythm.launchers.{name}" for name in ("ray", "spark", "slurm", "kubernetes", "mpi", "torchrun")}
"""The engines by the names that `--on` takes, and the module of each, which has its runtime under that name with a capital."""

LAUNCHED = ("slurm", "kubernetes", "torchrun", "mpi")
"""Those that can start the workers without a driver (`Launchable`)."""


def find(name: str) -> type[Any]:
    """The runtime of the engine `name`."""
    kind: type[Any] = getattr(importlib.import_module(ENGINES[name]), name.capitalize())
    return kind


def __getattr__(name: str) -> Any:
    """Each launcher is imported when it is first used: the command line lists their names without torch."""
    if name.lower() in ENGINES and name == name.capitalize():
        return find(name.lower())
    raise AttributeError(f"module 'polyrhythm.launchers' has no attribute {name!r}")
