"""Metrics in MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.extras import needed
from polyrhythm.core.protocols.metrics_logger import RunDescription
from polyrhythm.core.settings import checked

_LONGEST = 6000
"""How many characters a parameter of MLflow may have."""


@dataclass(frozen=True, slots=True)
@checked
class MLflow:
    """A run of `experiment` at `tracking`: a database ("sqlite:///mlflow.db") or a server ("http://…"). Needs `polyrhythm[mlflow]`."""

    tracking: str = "sqlite:///mlflow.db"
    experiment: str = "polyrhythm"

    def open(self, run: RunDescription) -> MLflowWriter:
        """A run with the settings as parameters; the experiment is made where there is none."""
        needed("mlflow", "mlflow")
        client = needed("mlflow.tracking", "mlflow").MlflowClient(tracking_uri=self.tracking)
        experiment = client.get_experiment_by_name(self.experiment)
        number = client.create_experiment(self.experiment) if experiment is None else experiment.experiment_id
        made = client.create_run(number, run_name=run.system).info.run_id
        settings = {"system": run.system, "workers": run.workers, "runtime": run.runtime, "seed": run.seed, **run.settings}
        for name, value in settings.items():
            client.log_param(made, _name(name), str(value)[:_LONGEST])
        return MLflowWriter(client, made)


class MLflowWriter:
    """Writes metrics to a run of MLflow."""

    def __init__(self, client: Any, run: str) -> None:
        self._client = client
        self._run = run

    def write(self, metrics: Mapping[str, float], step: int, seconds: float) -> None:
        for name, value in metrics.items():
            self._client.log_metric(self._run, _name(name), value, step=step)

    def close(self, state: str) -> None:
        self._client.set_terminated(self._run, {"ended": "FINISHED", "interrupted": "KILLED"}.get(state, "FAILED"))


def _name(given: str) -> str:
    """`given` with the characters that MLflow takes."""
    return "".join(each if each.isalnum() or each in "_-. /" else "_" for each in given)
