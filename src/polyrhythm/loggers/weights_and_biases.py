"""Metrics in Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyrhythm.core.extras import needed
from polyrhythm.core.protocols.metrics_logger import RunDescription
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class WandB:
    """A run of `project`, written to `directory`; `wandb sync` uploads it later. Needs `polyrhythm[wandb]`.

    Nothing leaves the machine unless `online` is set, which needs a login and a network.
    """

    project: str = "polyrhythm"
    directory: str | Path = "."
    online: bool = False

    def open(self, run: RunDescription) -> WandBWriter:
        """A run with the settings as its configuration."""
        library = needed("wandb", "wandb")
        Path(self.directory).mkdir(parents=True, exist_ok=True)
        made = library.init(
            project=self.project,
            dir=str(self.directory),
            mode="online" if self.online else "offline",
            reinit="create_new",
            config={"system": run.system, "workers": run.workers, "runtime": run.runtime, "seed": run.seed, **run.settings},
            settings=library.Settings(silent=True, console="off", x_disable_stats=True, disable_git=True, disable_code=True),
        )
        made.define_metric("*", step_metric="step")  # its own count goes up with each call, but values of a step may come later
        return WandBWriter(made)


class WandBWriter:
    """Writes metrics to a run of Weights & Biases."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def write(self, metrics: Mapping[str, float], step: int, seconds: float) -> None:
        self._run.log({**metrics, "step": step, "seconds": seconds})

    def close(self, state: str) -> None:
        self._run.finish(exit_code=int(state != "ended"))
