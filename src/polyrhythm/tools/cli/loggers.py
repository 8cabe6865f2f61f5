"""The loggers that --log names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from polyrhythm.errors import CompositionError, unknown

if TYPE_CHECKING:
    from polyrhythm.core.protocols.metrics_logger import MetricsLogger


def loggers(given: Sequence[str]) -> tuple[MetricsLogger, ...]:
    """A logger for each KIND:TARGET. Raises PolyrhythmErrors for a kind that does not exist, and where there is no target."""
    from polyrhythm.loggers import CSV, MLflow, TensorBoard, WandB

    kinds: dict[str, Callable[[str], MetricsLogger]] = {"csv": CSV, "tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow}
    chosen = []
    for each in given:
        kind, _, target = each.partition(":")
        if kind not in kinds:
            raise unknown("logger", kind, kinds)
        if not target:
            raise CompositionError(f"--log {each} has no target: write csv:PATH, tensorboard:DIR, wandb:PROJECT or mlflow:TRACKING-URI.")
        chosen.append(kinds[kind](target))
    return tuple(chosen)
