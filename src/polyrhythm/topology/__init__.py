"""Topologies: with whom workers exchange, and by which messages.

A `Strategy` has one; `polyrhythm.systems` compose them with the other pieces, and `core.catalogue` lists `MEMBERS`.
"""

from polyrhythm.core.protocols import declared
from polyrhythm.topology.collective.all_reduce import AllReduce as AllReduce
from polyrhythm.topology.collective.bucketed import Bucketed as Bucketed
from polyrhythm.topology.collective.keyed import Keyed as Keyed
from polyrhythm.topology.collective.fused import Fused as Fused
from polyrhythm.topology.collective.adasum import Adasum as Adasum
from polyrhythm.topology.summation.summation import Summation as Summation
from polyrhythm.topology.summation.deferred import Deferred as Deferred
from polyrhythm.topology.summation.served_sums import ServedSums as ServedSums
from polyrhythm.topology.servers.server import Server as Server
from polyrhythm.topology.servers.blockwise import Blockwise as Blockwise
from polyrhythm.topology.servers.broadcast_tree import BroadcastTree as BroadcastTree
from polyrhythm.topology.block_store.block_store import BlockStore as BlockStore
from polyrhythm.topology.gossip.gossip import Gossip as Gossip
from polyrhythm.topology.gossip.push_sum import PushSum as PushSum
from polyrhythm.topology.gossip.weighted_gossip import WeightedGossip as WeightedGossip
from polyrhythm.topology.gossip.compressed_gossip import CompressedGossip as CompressedGossip
from polyrhythm.topology.gossip.moshpit import Moshpit as Moshpit
from polyrhythm.topology.collective.average_weights import AverageWeights as AverageWeights
from polyrhythm.topology.peers.all_to_all import AllToAll as AllToAll
from polyrhythm.topology.peers.all_to_all import Mirrors as Mirrors
from polyrhythm.topology.peers.all_to_all import PartialExchange as PartialExchange
from polyrhythm.topology.peers.link_exchange import LinkExchange as LinkExchange
from polyrhythm.topology.peers.knowledge_transfer import KnowledgeTransfer as KnowledgeTransfer
from polyrhythm.topology.gossip.pair_averages import PairAverages as PairAverages
from polyrhythm.topology.gossip.pull_weights import PullWeights as PullWeights
from polyrhythm.topology.gossip.push_weights import PushWeights as PushWeights
from polyrhythm.topology.gossip.push_weights import PushParts as PushParts
from polyrhythm.topology.overlay.overlay import Overlay as Overlay
from polyrhythm.topology.server_ring.server_ring import ServerRing as ServerRing
from polyrhythm.topology.lock_free.shared_memory import SharedMemory as SharedMemory
from polyrhythm.topology.lock_free.fixed_point_memory import FixedPointMemory as FixedPointMemory
from polyrhythm.topology.datagrams.lossy_streams import LossyStreams as LossyStreams
from polyrhythm.topology.alone import Alone as Alone
from polyrhythm.core.collectives.tree import Tree as Tree
from polyrhythm.topology.collective.algorithms.aggregation_tree import AggregationTree as AggregationTree
from polyrhythm.topology.collective.algorithms.butterfly import Butterfly as Butterfly
from polyrhythm.topology.collective.algorithms.compressed_ring import CompressedRing as CompressedRing
from polyrhythm.topology.collective.algorithms.direct import Direct as Direct
from polyrhythm.topology.collective.algorithms.fastest import Fastest as Fastest
from polyrhythm.topology.collective.algorithms.hops import EightBits as EightBits
from polyrhythm.topology.collective.algorithms.hops import Truncated as Truncated
from polyrhythm.topology.collective.algorithms.ring import Ring as Ring
from polyrhythm.topology.collective.algorithms.star import Star as Star
from polyrhythm.topology.collective.autotune import Autotune as Autotune
from polyrhythm.topology.collective.delayed import Delayed as Delayed
from polyrhythm.topology.collective.readiness.cached import BitVector as BitVector
from polyrhythm.topology.collective.readiness.cached import ResponseCache as ResponseCache
from polyrhythm.topology.collective.readiness.coordinator import RootCoordinator as RootCoordinator
from polyrhythm.topology.collective.readiness.grouping import ByPattern as ByPattern
from polyrhythm.topology.collective.readiness.grouping import Neighbours as Neighbours
from polyrhythm.topology.collective.readiness.grouping import Separately as Separately
from polyrhythm.topology.graphs.bipartite import BipartiteGraph as BipartiteGraph
from polyrhythm.topology.graphs.complete_graph import CompleteGraph as CompleteGraph
from polyrhythm.topology.graphs.exponential_graph import ExponentialGraph as ExponentialGraph
from polyrhythm.topology.graphs.graph import Dissemination as Dissemination
from polyrhythm.topology.graphs.graph import FixedGraph as FixedGraph
from polyrhythm.topology.graphs.graph import RandomPairs as RandomPairs
from polyrhythm.topology.graphs.graph import RingGraph as RingGraph
from polyrhythm.topology.graphs.mixing_weights import Lazy as Lazy
from polyrhythm.topology.graphs.mixing_weights import MetropolisHastings as MetropolisHastings
from polyrhythm.topology.graphs.mixing_weights import UniformWeights as UniformWeights
from polyrhythm.topology.graphs.torus import Torus as Torus
from polyrhythm.topology.lock_free.weight_rounding import NearestRounding as NearestRounding
from polyrhythm.topology.lock_free.weight_rounding import StochasticRounding as StochasticRounding
from polyrhythm.topology.overlay.barriers import SelectiveBarrier as SelectiveBarrier
from polyrhythm.topology.overlay.mirror_clock import AsAgreed as AsAgreed
from polyrhythm.topology.overlay.mirror_clock import RoundTrips as RoundTrips
from polyrhythm.topology.server_ring.hash_ring import HashRing as HashRing
from polyrhythm.topology.servers.division import ByKey as ByKey
from polyrhythm.topology.servers.division import ByLayer as ByLayer
from polyrhythm.topology.servers.division import EvenRows as EvenRows
from polyrhythm.topology.servers.served_weights import AllWeights as AllWeights
from polyrhythm.topology.servers.served_weights import ChangedRows as ChangedRows
from polyrhythm.topology.servers.zeros_in_bits import ZerosInBits as ZerosInBits

ROUNDING = (CompressedRing(Truncated()), CompressedRing(EightBits()))
ALGORITHMS = (Ring(), Tree(), Butterfly(), Direct(), Star(), Fastest(latency=0.001, bandwidth=1e8), AggregationTree(2))
GRAPHS = (RingGraph(), Dissemination(rotate=False), Dissemination(), RandomPairs())
FAMILIES = (*GRAPHS, ExponentialGraph(), Torus(), CompleteGraph())
MEMBERS = (
    *declared.members(globals()),
    *(AllReduce(algorithm) for algorithm in ALGORITHMS[1:]),
    Fused(AllReduce(Direct()), readiness=BitVector(), groups=Neighbours(2)),
    Deferred(ServedSums(2)),
    Deferred(Gossip()),
    Server(2, responses=ChangedRows()),
    Server(2, responses=ZerosInBits()),
    Server(2, division=ByKey(largest=10)),
    Server(2, division=ByLayer()),
    *(Gossip(graph) for graph in GRAPHS if graph != Dissemination()),
    PushSum(ExponentialGraph(), overlap=1),
    WeightedGossip(RingGraph(), Lazy(UniformWeights(), 0.25)),
    Overlay(2, barrier=SelectiveBarrier(), clock=RoundTrips()),
    FixedPointMemory(16, NearestRounding()),
)
"""Examples of each piece, and compositions, in the order in which messages propose them: the laws are tested over these lists.
Sums of those in ROUNDING are not exact. FAMILIES are all graphs with room for any number of workers."""

__all__ = declared.names(globals())
