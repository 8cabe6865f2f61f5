"""Serving of a few models within their latency objectives: plans, batches, routes and admission, as pure decisions.

An executor carries them out: the simulator here, Ray Serve, or another server that reads an exported configuration. After Nexus (Shen
et al., 2019) and Symphony (Chen et al., 2023), for machines that are unequal.
"""

from polyrhythm.serving.batcher import BatchChoice, Batcher
from polyrhythm.serving.deferred_batch import DeferredBatch
from polyrhythm.serving.early_drop import EarlyDrop
from polyrhythm.serving.first_in_first_out import FirstInFirstOut
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.lazy_drop import LazyDrop
from polyrhythm.serving.machine_queue import MachineQueue
from polyrhythm.serving.planning import plan
from polyrhythm.serving.requests import Dropped, InferenceRequest, Ok, Overdue, Rejected
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan, PlanDiff, ServingPlan, Unserved
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession
from polyrhythm.serving.turns import DutyTurns, MachineChoice
from polyrhythm.serving.weak_points import WeakPoint, breaks_first, headroom, if_lost, weak_points

__all__ = [
    "BatchChoice",
    "Batcher",
    "DeferredBatch",
    "Dropped",
    "DutySlot",
    "DutyTurns",
    "EarlyDrop",
    "FirstInFirstOut",
    "InferenceRequest",
    "LatencyProfile",
    "LazyDrop",
    "MachineChoice",
    "MachinePlan",
    "MachineQueue",
    "Ok",
    "Overdue",
    "PlanDiff",
    "PlanningRules",
    "Rejected",
    "ServingMachine",
    "ServingPlan",
    "ServingSession",
    "Unserved",
    "WeakPoint",
    "breaks_first",
    "headroom",
    "if_lost",
    "plan",
    "weak_points",
]
