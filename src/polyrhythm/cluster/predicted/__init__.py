"""Placements by predicted times: ways to place a job, their forecasts, and joint schedules of several jobs."""

from polyrhythm.cluster.predicted.forecasts import Forecast, Forecaster, StepForecaster
from polyrhythm.cluster.predicted.joint_schedule import ExhaustiveSearch, JointProblem, JointSchedule, JointSearch, PlannedStart
from polyrhythm.cluster.predicted.policy import PredictedPlacement, joint_problem
from polyrhythm.cluster.predicted.ways import HostKinds, WayToPlace

__all__ = [
    "ExhaustiveSearch",
    "Forecast",
    "Forecaster",
    "HostKinds",
    "JointProblem",
    "JointSchedule",
    "JointSearch",
    "PlannedStart",
    "PredictedPlacement",
    "StepForecaster",
    "WayToPlace",
    "joint_problem",
]
