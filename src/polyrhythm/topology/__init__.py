"""Topologies: with whom workers exchange, and by which messages.

A `Strategy` has one; `polyrhythm.systems` compose them with the other pieces, and `core.catalogue` lists `MEMBERS`.
"""

from polyrhythm.core.collectives.tree import Tree
from polyrhythm.topology.alone import Alone
from polyrhythm.topology.block_store.block_store import BlockStore
from polyrhythm.topology.collective.adasum import Adasum
from polyrhythm.topology.collective.algorithms.aggregation_tree import AggregationTree
from polyrhythm.topology.collective.algorithms.butterfly import Butterfly
from polyrhythm.topology.collective.algorithms.compressed_ring import CompressedRing
from polyrhythm.topology.collective.algorithms.direct import Direct
from polyrhythm.topology.collective.algorithms.fastest import Fastest
from polyrhythm.topology.collective.algorithms.hops import EightBits, Truncated
from polyrhythm.topology.collective.algorithms.ring import Ring
from polyrhythm.topology.collective.algorithms.star import Star
from polyrhythm.topology.collective.all_reduce import AllReduce
from polyrhythm.topology.collective.autotune import Autotune
from polyrhythm.topology.collective.average_weights import AverageWeights
from polyrhythm.topology.collective.bucketed import Bucketed
from polyrhythm.topology.collective.delayed import Delayed
from polyrhythm.topology.collective.fused import Fused
from polyrhythm.topology.collective.keyed import Keyed
from polyrhythm.topology.collective.readiness.cached import BitVector, ResponseCache
from polyrhythm.topology.collective.readiness.coordinator import RootCoordinator
from polyrhythm.topology.collective.readiness.grouping import ByPattern, Neighbours, Separately
from polyrhythm.topology.datagrams.lossy_streams import LossyStreams
from polyrhythm.topology.gossip.compressed_gossip import CompressedGossip
from polyrhythm.topology.gossip.gossip import Gossip
from polyrhythm.topology.gossip.moshpit import Moshpit
from polyrhythm.topology.gossip.pair_averages import PairAverages
from polyrhythm.topology.gossip.pull_weights import PullWeights
from polyrhythm.topology.gossip.push_sum import PushSum
from polyrhythm.topology.gossip.push_weights import PushParts, PushWeights
from polyrhythm.topology.gossip.weighted_gossip import WeightedGossip
from polyrhythm.topology.graphs.bipartite import BipartiteGraph
from polyrhythm.topology.graphs.complete_graph import CompleteGraph
from polyrhythm.topology.graphs.exponential_graph import ExponentialGraph
from polyrhythm.topology.graphs.graph import Dissemination, FixedGraph, RandomPairs, RingGraph
from polyrhythm.topology.graphs.mixing_weights import Lazy, MetropolisHastings, UniformWeights
from polyrhythm.topology.graphs.torus import Torus
from polyrhythm.topology.lock_free.fixed_point_memory import FixedPointMemory
from polyrhythm.topology.lock_free.shared_memory import SharedMemory
from polyrhythm.topology.lock_free.weight_rounding import NearestRounding, StochasticRounding
from polyrhythm.topology.overlay.barriers import SelectiveBarrier
from polyrhythm.topology.overlay.mirror_clock import AsAgreed, RoundTrips
from polyrhythm.topology.overlay.overlay import Overlay
from polyrhythm.topology.peers.all_to_all import AllToAll, Mirrors, PartialExchange
from polyrhythm.topology.peers.knowledge_transfer import KnowledgeTransfer
from polyrhythm.topology.peers.link_exchange import LinkExchange
from polyrhythm.topology.server_ring.hash_ring import HashRing
from polyrhythm.topology.server_ring.server_ring import ServerRing
from polyrhythm.topology.servers.blockwise import Blockwise
from polyrhythm.topology.servers.broadcast_tree import BroadcastTree
from polyrhythm.topology.servers.division import ByKey, ByLayer, EvenRows
from polyrhythm.topology.servers.served_weights import AllWeights, ChangedRows
from polyrhythm.topology.servers.server import Server
from polyrhythm.topology.servers.zeros_in_bits import ZerosInBits
from polyrhythm.topology.summation.deferred import Deferred
from polyrhythm.topology.summation.served_sums import ServedSums
from polyrhythm.topology.summation.summation import Summation

ROUNDING = (CompressedRing(Truncated()), CompressedRing(EightBits()))
ALGORITHMS = (Ring(), Tree(), Butterfly(), Direct(), Star(), Fastest(latency=0.001, bandwidth=1e8), AggregationTree(2))
GRAPHS = (RingGraph(), Dissemination(rotate=False), Dissemination(), RandomPairs())
FAMILIES = (*GRAPHS, ExponentialGraph(), Torus(), CompleteGraph())
MEMBERS = (
    *(AllReduce(algorithm) for algorithm in ALGORITHMS),
    Bucketed(AllReduce(), nbytes=32),
    Keyed(AllReduce()),
    Fused(AllReduce(), nbytes=64),
    Fused(AllReduce(Direct()), readiness=BitVector(), groups=Neighbours(2)),
    Adasum(),
    Summation(0),
    Summation(1, nbytes=16),
    Deferred(Summation(0)),
    Deferred(Summation(1, nbytes=16)),
    ServedSums(2, ByKey(largest=10)),
    Deferred(ServedSums(2)),
    Server(1),
    Server(3),
    Server(2, responses=ChangedRows()),
    Server(2, responses=ZerosInBits()),
    Server(2, division=ByKey(largest=10)),
    Server(2, division=ByLayer()),
    Blockwise(3),
    BroadcastTree(),
    BroadcastTree(1),
    BlockStore(),
    BlockStore(2),
    *(Gossip(graph) for graph in GRAPHS),
    Deferred(Gossip()),
    PushSum(),
    PushSum(ExponentialGraph(), overlap=1),
    WeightedGossip(),
    WeightedGossip(RingGraph(), Lazy(UniformWeights(), 0.25)),
    CompressedGossip(),
    Moshpit(),
    Moshpit(dimensions=3, rounds=3),
    AverageWeights(),
    AllToAll(),
    Mirrors(),
    PartialExchange(),
    LinkExchange(),
    KnowledgeTransfer(),
    PairAverages(),
    PullWeights(),
    PushWeights(),
    PushParts(parts=3),
    Overlay(),
    Overlay(2, barrier=SelectiveBarrier(), clock=RoundTrips()),
    ServerRing(2, replicas=1),
    SharedMemory(),
    FixedPointMemory(),
    FixedPointMemory(16, NearestRounding()),
    LossyStreams(nbytes=64, refresh=2),
    Alone(),
)
"""One of each kind and of each interesting setting: the laws are tested over these lists. Sums of those in ROUNDING are not exact.
FAMILIES are all graphs with room for any number of workers."""

__all__ = [
    "ALGORITHMS",
    "FAMILIES",
    "GRAPHS",
    "MEMBERS",
    "ROUNDING",
    "Adasum",
    "AggregationTree",
    "AllReduce",
    "AllToAll",
    "AllWeights",
    "Alone",
    "AsAgreed",
    "Autotune",
    "AverageWeights",
    "BipartiteGraph",
    "BitVector",
    "BlockStore",
    "Blockwise",
    "BroadcastTree",
    "Bucketed",
    "Butterfly",
    "ByKey",
    "ByLayer",
    "ByPattern",
    "ChangedRows",
    "CompleteGraph",
    "CompressedGossip",
    "CompressedRing",
    "Deferred",
    "Delayed",
    "Direct",
    "Dissemination",
    "EightBits",
    "EvenRows",
    "ExponentialGraph",
    "Fastest",
    "FixedGraph",
    "FixedPointMemory",
    "Fused",
    "Gossip",
    "HashRing",
    "Keyed",
    "KnowledgeTransfer",
    "Lazy",
    "LinkExchange",
    "LossyStreams",
    "MetropolisHastings",
    "Mirrors",
    "Moshpit",
    "NearestRounding",
    "Neighbours",
    "Overlay",
    "PairAverages",
    "PartialExchange",
    "PullWeights",
    "PushParts",
    "PushSum",
    "PushWeights",
    "RandomPairs",
    "ResponseCache",
    "Ring",
    "RingGraph",
    "RootCoordinator",
    "RoundTrips",
    "SelectiveBarrier",
    "Separately",
    "ServedSums",
    "Server",
    "ServerRing",
    "SharedMemory",
    "Star",
    "StochasticRounding",
    "Summation",
    "Torus",
    "Tree",
    "Truncated",
    "UniformWeights",
    "WeightedGossip",
    "ZerosInBits",
]
