"""Polyrhythm: train one PyTorch model with many workers that do not keep the same time, for real or in virtual time.

Names are imported when they are first used, so that `polyrhythm --help` does not wait for torch.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyrhythm import systems as systems
    from polyrhythm.buffers import MeanBuffers as MeanBuffers
    from polyrhythm.buffers import OwnBuffers as OwnBuffers
    from polyrhythm.buffers import RecalibratedBuffers as RecalibratedBuffers
    from polyrhythm.codec import E3M0 as E3M0
    from polyrhythm.codec import KKT as KKT
    from polyrhythm.codec import AdaptiveThreshold as AdaptiveThreshold
    from polyrhythm.codec import AveragedMomentum as AveragedMomentum
    from polyrhythm.codec import Cast as Cast
    from polyrhythm.codec import Clipped as Clipped
    from polyrhythm.codec import ClippedFeedback as ClippedFeedback
    from polyrhythm.codec import CosineTopK as CosineTopK
    from polyrhythm.codec import DecayingFeedback as DecayingFeedback
    from polyrhythm.codec import ErrorFeedback as ErrorFeedback
    from polyrhythm.codec import FeatureBlocks as FeatureBlocks
    from polyrhythm.codec import GapCoded as GapCoded
    from polyrhythm.codec import Identity as Identity
    from polyrhythm.codec import KeyList as KeyList
    from polyrhythm.codec import LocalMomentum as LocalMomentum
    from polyrhythm.codec import LowRank as LowRank
    from polyrhythm.codec import MaxN as MaxN
    from polyrhythm.codec import MomentumCorrection as MomentumCorrection
    from polyrhythm.codec import OneBit as OneBit
    from polyrhythm.codec import OneBitTensorwise as OneBitTensorwise
    from polyrhythm.codec import Partitions as Partitions
    from polyrhythm.codec import PerTensor as PerTensor
    from polyrhythm.codec import RandomK as RandomK
    from polyrhythm.codec import RandomSkip as RandomSkip
    from polyrhythm.codec import RateScaled as RateScaled
    from polyrhythm.codec import RefreshedLowRank as RefreshedLowRank
    from polyrhythm.codec import Relative as Relative
    from polyrhythm.codec import Rows as Rows
    from polyrhythm.codec import ScaledSign as ScaledSign
    from polyrhythm.codec import SenderMean as SenderMean
    from polyrhythm.codec import SharedK as SharedK
    from polyrhythm.codec import Sign as Sign
    from polyrhythm.codec import Significant as Significant
    from polyrhythm.codec import StochasticLevels as StochasticLevels
    from polyrhythm.codec import Striped as Striped
    from polyrhythm.codec import SufficientFactors as SufficientFactors
    from polyrhythm.codec import Ternary as Ternary
    from polyrhythm.codec import Threshold as Threshold
    from polyrhythm.codec import TopK as TopK
    from polyrhythm.codec import TopKWarmup as TopKWarmup
    from polyrhythm.codec import TwoBit as TwoBit
    from polyrhythm.codec import UnitSigns as UnitSigns
    from polyrhythm.codec import Warmup as Warmup
    from polyrhythm.consistency import Asynchronous as Asynchronous
    from polyrhythm.consistency import Bounded as Bounded
    from polyrhythm.consistency import BoundedDelay as BoundedDelay
    from polyrhythm.consistency import Buffered as Buffered
    from polyrhythm.consistency import BulkSynchronous as BulkSynchronous
    from polyrhythm.consistency import Every as Every
    from polyrhythm.consistency import Intervals as Intervals
    from polyrhythm.consistency import LocalSteps as LocalSteps
    from polyrhythm.consistency import PacedLocalSteps as PacedLocalSteps
    from polyrhythm.consistency import SampledClients as SampledClients
    from polyrhythm.consistency import SoftSync as SoftSync
    from polyrhythm.consistency import Switched as Switched
    from polyrhythm.consistency import WarmStart as WarmStart
    from polyrhythm.controllers import BatchShares as BatchShares
    from polyrhythm.controllers import BestWorker as BestWorker
    from polyrhythm.controllers import Fixed as Fixed
    from polyrhythm.controllers import LinkPartitions as LinkPartitions
    from polyrhythm.controllers import LocalStepShares as LocalStepShares
    from polyrhythm.controllers import Several as Several
    from polyrhythm.controllers import SharedPartitions as SharedPartitions
    from polyrhythm.controllers import StepBytes as StepBytes
    from polyrhythm.controllers import TotalBatch as TotalBatch
    from polyrhythm.core.processes import Processes as Processes
    from polyrhythm.core.simulator import ClosedForm as ClosedForm
    from polyrhythm.core.simulator import Instant as Instant
    from polyrhythm.core.simulator import Messages as Messages
    from polyrhythm.core.simulator import Simulator as Simulator
    from polyrhythm.core.strategy import ByHost as ByHost
    from polyrhythm.core.strategy import BySite as BySite
    from polyrhythm.core.strategy import Exchange as Exchange
    from polyrhythm.core.strategy import Given as Given
    from polyrhythm.core.strategy import Hierarchical as Hierarchical
    from polyrhythm.core.strategy import InGroups as InGroups
    from polyrhythm.core.strategy import Leaders as Leaders
    from polyrhythm.core.strategy import OfSize as OfSize
    from polyrhythm.core.strategy import Strategy as Strategy
    from polyrhythm.core.strategy import Stripes as Stripes
    from polyrhythm.core.tables.table import Table as Table
    from polyrhythm.core.training.join import join as join
    from polyrhythm.core.training.result import Run as Run
    from polyrhythm.core.training.run import run as run
    from polyrhythm.core.training.worker import Worker as Worker
    from polyrhythm.errors import AliasWarning as AliasWarning
    from polyrhythm.errors import CheckpointError as CheckpointError
    from polyrhythm.errors import DriftWarning as DriftWarning
    from polyrhythm.errors import PolyrhythmError as PolyrhythmError
    from polyrhythm.errors import RecordError as RecordError
    from polyrhythm.errors import RecordWarning as RecordWarning
    from polyrhythm.errors import ResumedWarning as ResumedWarning
    from polyrhythm.errors import UnshardedWarning as UnshardedWarning
    from polyrhythm.hardware.devices import Device as Device
    from polyrhythm.hardware.devices import Profile as Profile
    from polyrhythm.hardware.faults import Crash as Crash
    from polyrhythm.hardware.faults import Cut as Cut
    from polyrhythm.hardware.faults import DatagramFaults as DatagramFaults
    from polyrhythm.hardware.faults import Drop as Drop
    from polyrhythm.hardware.faults import RandomCrashes as RandomCrashes
    from polyrhythm.hardware.faults import RandomCuts as RandomCuts
    from polyrhythm.hardware.faults import RandomStalls as RandomStalls
    from polyrhythm.hardware.faults import Stall as Stall
    from polyrhythm.hardware.fleet import Fleet as Fleet
    from polyrhythm.hardware.fleet import Jitter as Jitter
    from polyrhythm.hardware.fleet import Mixed as Mixed
    from polyrhythm.hardware.fleet import RandomStragglers as RandomStragglers
    from polyrhythm.hardware.fleet import Straggler as Straggler
    from polyrhythm.hardware.network import Network as Network
    from polyrhythm.launchers.kubernetes import Kubernetes as Kubernetes
    from polyrhythm.launchers.mpi import Mpi as Mpi
    from polyrhythm.launchers.ray import Ray as Ray
    from polyrhythm.launchers.slurm import Slurm as Slurm
    from polyrhythm.launchers.spark import Spark as Spark
    from polyrhythm.launchers.torchrun import Torchrun as Torchrun
    from polyrhythm.local_rules import AverageMoments as AverageMoments
    from polyrhythm.local_rules import Consensus as Consensus
    from polyrhythm.local_rules import CorrectedWeights as CorrectedWeights
    from polyrhythm.local_rules import GossipNesterov as GossipNesterov
    from polyrhythm.local_rules import KeepLateSteps as KeepLateSteps
    from polyrhythm.local_rules import KeepOwn as KeepOwn
    from polyrhythm.local_rules import OneBlock as OneBlock
    from polyrhythm.local_rules import PlainSteps as PlainSteps
    from polyrhythm.local_rules import Proximal as Proximal
    from polyrhythm.local_rules import RandomComponent as RandomComponent
    from polyrhythm.local_rules import ResetMoments as ResetMoments
    from polyrhythm.local_rules import TrackedGradients as TrackedGradients
    from polyrhythm.loggers import CSV as CSV
    from polyrhythm.loggers import MLflow as MLflow
    from polyrhythm.loggers import TensorBoard as TensorBoard
    from polyrhythm.loggers import WandB as WandB
    from polyrhythm.merge import LARC as LARC
    from polyrhythm.merge import LARS as LARS
    from polyrhythm.merge import Adagrad as Adagrad
    from polyrhythm.merge import Adam as Adam
    from polyrhythm.merge import BatchWeighted as BatchWeighted
    from polyrhythm.merge import DelayedNesterov as DelayedNesterov
    from polyrhythm.merge import Elastic as Elastic
    from polyrhythm.merge import FrozenAdam as FrozenAdam
    from polyrhythm.merge import HeavyBall as HeavyBall
    from polyrhythm.merge import LinearScaling as LinearScaling
    from polyrhythm.merge import Mean as Mean
    from polyrhythm.merge import Nesterov as Nesterov
    from polyrhythm.merge import OuterOptimizer as OuterOptimizer
    from polyrhythm.merge import ParzenGate as ParzenGate
    from polyrhythm.merge import PolynomialStaleness as PolynomialStaleness
    from polyrhythm.merge import ProximalSGD as ProximalSGD
    from polyrhythm.merge import SampleMean as SampleMean
    from polyrhythm.merge import SignDescent as SignDescent
    from polyrhythm.merge import SlowMomentum as SlowMomentum
    from polyrhythm.merge import SquareRootScaling as SquareRootScaling
    from polyrhythm.merge import StalenessScaled as StalenessScaled
    from polyrhythm.merge import Sum as Sum
    from polyrhythm.merge import VersionedMean as VersionedMean
    from polyrhythm.merge import Yogi as Yogi
    from polyrhythm.parameters import CheaperAsFactors as CheaperAsFactors
    from polyrhythm.parameters import Dimensions as Dimensions
    from polyrhythm.parameters import FewerAsFactors as FewerAsFactors
    from polyrhythm.parameters import Fragment as Fragment
    from polyrhythm.parameters import Modules as Modules
    from polyrhythm.parameters import Named as Named
    from polyrhythm.parameters import Optionally as Optionally
    from polyrhythm.parameters import Where as Where
    from polyrhythm.shuffle import GlobalShuffle as GlobalShuffle
    from polyrhythm.shuffle import OwnPace as OwnPace
    from polyrhythm.shuffle import RingShuffle as RingShuffle
    from polyrhythm.sources import HuggingFaceStream as HuggingFaceStream
    from polyrhythm.sources import LocalShard as LocalShard
    from polyrhythm.sources import ParquetFiles as ParquetFiles
    from polyrhythm.sources import RayShards as RayShards
    from polyrhythm.sources import TarShards as TarShards
    from polyrhythm.sources import spark_frame as spark_frame
    from polyrhythm.tables import DenseRows as DenseRows
    from polyrhythm.tables import SparseRows as SparseRows
    from polyrhythm.tools.measuring.batch_size import largest_batch as largest_batch
    from polyrhythm.tools.measuring.timing import time as time
    from polyrhythm.tools.planner.answer import Plan  # noqa: F401
    from polyrhythm.tools.planner.objective import Prices  # noqa: F401
    from polyrhythm.tools.planner.plan import PlanRequest, plan  # noqa: F401
    from polyrhythm.tools.planner.table import plan_text  # noqa: F401
    from polyrhythm.tools.recipes.recipe import lint_recipe as lint_recipe
    from polyrhythm.tools.recipes.recipe_check import check_recipe as check_recipe
    from polyrhythm.topology import Adasum as Adasum
    from polyrhythm.topology import AggregationTree as AggregationTree
    from polyrhythm.topology import AllReduce as AllReduce
    from polyrhythm.topology import AllToAll as AllToAll
    from polyrhythm.topology import AllWeights as AllWeights
    from polyrhythm.topology import Alone as Alone
    from polyrhythm.topology import AsAgreed as AsAgreed
    from polyrhythm.topology import Autotune as Autotune
    from polyrhythm.topology import AverageWeights as AverageWeights
    from polyrhythm.topology import BipartiteGraph as BipartiteGraph
    from polyrhythm.topology import BitVector as BitVector
    from polyrhythm.topology import BlockStore as BlockStore
    from polyrhythm.topology import Blockwise as Blockwise
    from polyrhythm.topology import BroadcastTree as BroadcastTree
    from polyrhythm.topology import Bucketed as Bucketed
    from polyrhythm.topology import Butterfly as Butterfly
    from polyrhythm.topology import ByKey as ByKey
    from polyrhythm.topology import ByLayer as ByLayer
    from polyrhythm.topology import ByPattern as ByPattern
    from polyrhythm.topology import ChangedRows as ChangedRows
    from polyrhythm.topology import CompleteGraph as CompleteGraph
    from polyrhythm.topology import CompressedGossip as CompressedGossip
    from polyrhythm.topology import CompressedRing as CompressedRing
    from polyrhythm.topology import Deferred as Deferred
    from polyrhythm.topology import Delayed as Delayed
    from polyrhythm.topology import Direct as Direct
    from polyrhythm.topology import Dissemination as Dissemination
    from polyrhythm.topology import EightBits as EightBits
    from polyrhythm.topology import EvenRows as EvenRows
    from polyrhythm.topology import ExponentialGraph as ExponentialGraph
    from polyrhythm.topology import Fastest as Fastest
    from polyrhythm.topology import FixedGraph as FixedGraph
    from polyrhythm.topology import FixedPointMemory as FixedPointMemory
    from polyrhythm.topology import Fused as Fused
    from polyrhythm.topology import Gossip as Gossip
    from polyrhythm.topology import HashRing as HashRing
    from polyrhythm.topology import Keyed as Keyed
    from polyrhythm.topology import KnowledgeTransfer as KnowledgeTransfer
    from polyrhythm.topology import Lazy as Lazy
    from polyrhythm.topology import LinkExchange as LinkExchange
    from polyrhythm.topology import LossyStreams as LossyStreams
    from polyrhythm.topology import MetropolisHastings as MetropolisHastings
    from polyrhythm.topology import Mirrors as Mirrors
    from polyrhythm.topology import Moshpit as Moshpit
    from polyrhythm.topology import NearestRounding as NearestRounding
    from polyrhythm.topology import Neighbours as Neighbours
    from polyrhythm.topology import Overlay as Overlay
    from polyrhythm.topology import PairAverages as PairAverages
    from polyrhythm.topology import PartialExchange as PartialExchange
    from polyrhythm.topology import PullWeights as PullWeights
    from polyrhythm.topology import PushParts as PushParts
    from polyrhythm.topology import PushSum as PushSum
    from polyrhythm.topology import PushWeights as PushWeights
    from polyrhythm.topology import RandomPairs as RandomPairs
    from polyrhythm.topology import ResponseCache as ResponseCache
    from polyrhythm.topology import Ring as Ring
    from polyrhythm.topology import RingGraph as RingGraph
    from polyrhythm.topology import RootCoordinator as RootCoordinator
    from polyrhythm.topology import RoundTrips as RoundTrips
    from polyrhythm.topology import SelectiveBarrier as SelectiveBarrier
    from polyrhythm.topology import Separately as Separately
    from polyrhythm.topology import ServedSums as ServedSums
    from polyrhythm.topology import Server as Server
    from polyrhythm.topology import ServerRing as ServerRing
    from polyrhythm.topology import SharedMemory as SharedMemory
    from polyrhythm.topology import Star as Star
    from polyrhythm.topology import StochasticRounding as StochasticRounding
    from polyrhythm.topology import Summation as Summation
    from polyrhythm.topology import Torus as Torus
    from polyrhythm.topology import Tree as Tree
    from polyrhythm.topology import Truncated as Truncated
    from polyrhythm.topology import UniformWeights as UniformWeights
    from polyrhythm.topology import WeightedGossip as WeightedGossip
    from polyrhythm.topology import ZerosInBits as ZerosInBits
    from polyrhythm.workloads.block_schedules import RandomBlocks as RandomBlocks
    from polyrhythm.workloads.block_schedules import Strads as Strads
    from polyrhythm.workloads.block_schedules import balanced as balanced
    from polyrhythm.workloads.load import load as load_workload  # noqa: F401

_PLACES = {
    "buffers": "MeanBuffers OwnBuffers RecalibratedBuffers",
    "codec": (
        "AdaptiveThreshold AveragedMomentum Cast Clipped ClippedFeedback CosineTopK DecayingFeedback E3M0 ErrorFeedback "
        "FeatureBlocks GapCoded Identity KKT KeyList LocalMomentum LowRank MaxN MomentumCorrection OneBit OneBitTensorwise "
        "Partitions PerTensor RandomK RandomSkip RateScaled RefreshedLowRank Relative Rows ScaledSign SenderMean SharedK Sign Significant "
        "StochasticLevels Striped SufficientFactors Ternary Threshold TopK TopKWarmup TwoBit UnitSigns Warmup"
    ),
    "consistency": (
        "Asynchronous Bounded BoundedDelay Buffered BulkSynchronous Every Intervals LocalSteps PacedLocalSteps SampledClients "
        "SoftSync Switched WarmStart"
    ),
    "controllers": "BatchShares BestWorker Fixed LinkPartitions LocalStepShares Several SharedPartitions StepBytes TotalBatch",
    "launchers.kubernetes": "Kubernetes",
    "launchers.mpi": "Mpi",
    "launchers.ray": "Ray",
    "launchers.slurm": "Slurm",
    "launchers.spark": "Spark",
    "launchers.torchrun": "Torchrun",
    "errors": "AliasWarning CheckpointError DriftWarning PolyrhythmError RecordError RecordWarning ResumedWarning UnshardedWarning",
    "hardware.devices": "Device Profile",
    "hardware.faults": "Crash Cut DatagramFaults Drop RandomCrashes RandomCuts RandomStalls Stall",
    "hardware.fleet": "Fleet Jitter Mixed RandomStragglers Straggler",
    "hardware.network": "Network",
    "local_rules": (
        "AverageMoments Consensus CorrectedWeights GossipNesterov KeepLateSteps KeepOwn OneBlock PlainSteps Proximal RandomComponent "
        "ResetMoments TrackedGradients"
    ),
    "loggers": "CSV MLflow TensorBoard WandB",
    "merge": (
        "Adagrad Adam BatchWeighted DelayedNesterov Elastic FrozenAdam HeavyBall LARC LARS LinearScaling Mean Nesterov "
        "OuterOptimizer ParzenGate PolynomialStaleness ProximalSGD SampleMean SignDescent SlowMomentum SquareRootScaling "
        "StalenessScaled Sum VersionedMean Yogi"
    ),
    "core.processes": "Processes",
    "shuffle": "GlobalShuffle OwnPace RingShuffle",
    "core.simulator": "ClosedForm Instant Messages Simulator",
    "parameters": "CheaperAsFactors Dimensions FewerAsFactors Fragment Modules Named Optionally Where",
    "sources": "HuggingFaceStream LocalShard ParquetFiles RayShards TarShards spark_frame",
    "core.strategy": "ByHost BySite Exchange Given Hierarchical InGroups Leaders OfSize Strategy Stripes",
    "topology": (
        "Adasum AggregationTree AllReduce AllToAll AllWeights Alone AsAgreed Autotune AverageWeights BipartiteGraph BitVector "
        "BlockStore Blockwise BroadcastTree Bucketed Butterfly ByKey ByLayer ByPattern ChangedRows CompleteGraph "
        "CompressedGossip CompressedRing Deferred Delayed Direct Dissemination EightBits EvenRows ExponentialGraph Fastest "
        "FixedGraph FixedPointMemory Fused Gossip HashRing Keyed KnowledgeTransfer Lazy LinkExchange LossyStreams "
        "MetropolisHastings Mirrors Moshpit NearestRounding Neighbours Overlay PairAverages PartialExchange PullWeights "
        "PushParts PushSum PushWeights RandomPairs ResponseCache Ring RingGraph RootCoordinator RoundTrips SelectiveBarrier "
        "Separately ServedSums Server ServerRing SharedMemory Star StochasticRounding Summation Torus Tree Truncated "
        "UniformWeights WeightedGossip ZerosInBits"
    ),
    "tools.planner.answer": "Plan",
    "tools.planner.objective": "Prices",
    "tools.planner.plan": "PlanRequest plan",
    "tools.planner.table": "plan_text",
    "workloads.block_schedules": "RandomBlocks Strads balanced",
    "tables": "DenseRows SparseRows",
    "core.tables.table": "Table",
    "tools.measuring.batch_size": "largest_batch",
    "core.training.join": "join",
    "tools.recipes.recipe": "lint_recipe",
    "tools.recipes.recipe_check": "check_recipe",
    "core.training.result": "Run",
    "core.training.run": "run",
    "tools.measuring.timing": "time",
    "core.training.worker": "Worker",
}
_HOMES = {name: (f"polyrhythm.{place}", name) for place, names in _PLACES.items() for name in names.split()}
_HOMES["load_workload"] = ("polyrhythm.workloads.load", "load")

__all__ = sorted([*_HOMES, "systems"])


_RENAMED = {"Free": "Asynchronous", "Lockstep": "BulkSynchronous"}
"""Names of the release before, which still work in this one."""


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        warnings.warn(f"polyrhythm.{name} is now called polyrhythm.{_RENAMED[name]}.", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name == "systems":
        return importlib.import_module("polyrhythm.systems")
    if name not in _HOMES:
        raise AttributeError(f"module 'polyrhythm' has no attribute {name!r}")
    module, called = _HOMES[name]
    value = getattr(importlib.import_module(module), called)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
