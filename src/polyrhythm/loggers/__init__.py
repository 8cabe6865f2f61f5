"""Loggers: where the metrics of a run go, besides its record."""

from polyrhythm.loggers.csv_file import CSV
from polyrhythm.loggers.ml_flow import MLflow
from polyrhythm.loggers.tensor_board import TensorBoard
from polyrhythm.loggers.weights_and_biases import WandB

__all__ = ["CSV", "MLflow", "TensorBoard", "WandB"]
