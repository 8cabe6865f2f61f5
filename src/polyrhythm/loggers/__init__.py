"""Loggers: where the metrics of a run go, besides its record."""

from polyrhythm.core.protocols import declared
from polyrhythm.loggers.csv_file import CSV as CSV
from polyrhythm.loggers.ml_flow import MLflow as MLflow
from polyrhythm.loggers.tensor_board import TensorBoard as TensorBoard
from polyrhythm.loggers.weights_and_biases import WandB as WandB

__all__ = declared.names(globals())
