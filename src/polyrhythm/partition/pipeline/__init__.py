"""Pipelines: the steps of a model are divided among ranks, through which the parts of a batch go one after another."""

from polyrhythm.partition.pipeline.balance import BalancedStages, GivenStages
from polyrhythm.partition.pipeline.boundaries.bottleneck import Bottleneck
from polyrhythm.partition.pipeline.boundaries.delta import Delta
from polyrhythm.partition.pipeline.boundaries.in_place import BoundaryInPlace
from polyrhythm.partition.pipeline.boundaries.quantized import Activations
from polyrhythm.partition.pipeline.boundaries.subspace import Subspace
from polyrhythm.partition.pipeline.boundary import Exact
from polyrhythm.partition.pipeline.delayed import DelayByDepth, DelayedPipeline, SameDelay
from polyrhythm.partition.pipeline.engine import Pipeline
from polyrhythm.partition.pipeline.memory import KeepActivations, Recompute
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.pipelined import Pipelined, step_costs, step_nbytes
from polyrhythm.partition.pipeline.routed import RoutedPass, RoutedTimetable, fitted, routed_timetable
from polyrhythm.partition.pipeline.routes import AroundLost, ByMeasuredSpeed, BySpeed, RandomRoutes
from polyrhythm.partition.pipeline.schedule import unrolled
from polyrhythm.partition.pipeline.schedules import GPipe, Interleaved, OneForwardOneBackward, ZeroBubble, in_flight_for
from polyrhythm.partition.pipeline.stages_by_replica import StagesByReplica
from polyrhythm.partition.pipeline.step import Step
from polyrhythm.partition.pipeline.templates import PipelineTemplate, PipelineTemplates
from polyrhythm.partition.pipeline.timetable import Durations, StageLink, timetable

__all__ = [
    "Activations",
    "AroundLost",
    "BalancedStages",
    "Bottleneck",
    "BoundaryInPlace",
    "ByMeasuredSpeed",
    "BySpeed",
    "DelayByDepth",
    "DelayedPipeline",
    "Delta",
    "Durations",
    "Exact",
    "GPipe",
    "GivenStages",
    "Interleaved",
    "KeepActivations",
    "MeanLoss",
    "OneForwardOneBackward",
    "Pipeline",
    "PipelineTemplate",
    "PipelineTemplates",
    "Pipelined",
    "RandomRoutes",
    "Recompute",
    "RoutedPass",
    "RoutedTimetable",
    "SameDelay",
    "StageLink",
    "StagesByReplica",
    "Step",
    "Subspace",
    "ZeroBubble",
    "fitted",
    "in_flight_for",
    "routed_timetable",
    "step_costs",
    "step_nbytes",
    "timetable",
    "unrolled",
]
