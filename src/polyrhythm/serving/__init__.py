"""Serving of a few models within their latency objectives: plans, batches, routes and admission, as pure decisions.

An executor carries them out: the simulator here, Ray Serve, or another server that reads an exported configuration. After Nexus (Shen
et al., 2019) and Symphony (Chen et al., 2023), for machines that are unequal. Layers that models of torch share are found by
`polyrhythm.serving.prefix_models`, which this package does not import: the rest works without torch.
"""

from polyrhythm.serving.batcher import BatchChoice, Batcher
from polyrhythm.serving.control import Beacon, ControlRules, ControlState, RateEstimate, Replan, control
from polyrhythm.serving.deferred_batch import DeferredBatch
from polyrhythm.serving.early_drop import EarlyDrop
from polyrhythm.serving.exporting import BentoExport, PlanExport, TritonExport
from polyrhythm.serving.first_in_first_out import FirstInFirstOut
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.lazy_drop import LazyDrop
from polyrhythm.serving.machine_queue import MachineQueue
from polyrhythm.serving.planning import plan
from polyrhythm.serving.requests import Dropped, InferenceRequest, Ok, Overdue, Rejected
from polyrhythm.serving.routing import Destination, LeastCompletionTime, PowerOfTwoChoices, RequestRouter, Routed, SmoothWeighted
from polyrhythm.serving.serving_plan import DutySlot, MachinePlan, PlanDiff, ServingPlan, Unserved
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession
from polyrhythm.serving.simulation import (
    ArrivalProcess,
    BurstyArrivals,
    EvenArrivals,
    OfferedLoad,
    PoissonArrivals,
    RecordedArrivals,
    ServedLoad,
    SessionTally,
    SimulatedSite,
    SteppedArrivals,
    read_trace,
    simulate_serving,
)
from polyrhythm.serving.token_bucket import AdmissionRule, AdmitAll, AdmitPlanned, TokenBucket
from polyrhythm.serving.turns import DutyTurns, MachineChoice
from polyrhythm.serving.weak_points import WeakPoint, breaks_first, headroom, if_lost, weak_points
from polyrhythm.serving.latency_split import EvenSplit, LatencySplit, OptimalSplit
from polyrhythm.serving.family_members import FamilyMembers
from polyrhythm.serving.prefix_family import FamilyChoice, PrefixFamily, WeighedFamily, plan_families
from polyrhythm.serving.query import Query, QueryNode

__all__ = [
    "AdmissionRule",
    "AdmitAll",
    "AdmitPlanned",
    "ArrivalProcess",
    "BatchChoice",
    "Batcher",
    "Beacon",
    "BentoExport",
    "BurstyArrivals",
    "ControlRules",
    "ControlState",
    "DeferredBatch",
    "Destination",
    "Dropped",
    "DutySlot",
    "DutyTurns",
    "EarlyDrop",
    "EvenArrivals",
    "EvenSplit",
    "FamilyChoice",
    "FamilyMembers",
    "FirstInFirstOut",
    "InferenceRequest",
    "LatencyProfile",
    "LatencySplit",
    "LazyDrop",
    "LeastCompletionTime",
    "MachineChoice",
    "MachinePlan",
    "MachineQueue",
    "OfferedLoad",
    "Ok",
    "OptimalSplit",
    "Overdue",
    "PlanDiff",
    "PlanExport",
    "PlanningRules",
    "PoissonArrivals",
    "PowerOfTwoChoices",
    "PrefixFamily",
    "Query",
    "QueryNode",
    "RateEstimate",
    "RecordedArrivals",
    "Rejected",
    "Replan",
    "RequestRouter",
    "Routed",
    "ServedLoad",
    "ServingMachine",
    "ServingPlan",
    "ServingSession",
    "SessionTally",
    "SimulatedSite",
    "SmoothWeighted",
    "SteppedArrivals",
    "TokenBucket",
    "TritonExport",
    "Unserved",
    "WeakPoint",
    "WeighedFamily",
    "breaks_first",
    "control",
    "headroom",
    "if_lost",
    "plan",
    "plan_families",
    "read_trace",
    "simulate_serving",
    "weak_points",
]
