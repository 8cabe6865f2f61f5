"""Node policies: which host is best for some workers of a job."""

from polyrhythm.cluster.nodes.bin_pack import BinPack as BinPack
from polyrhythm.cluster.nodes.spread_nodes import SpreadNodes as SpreadNodes
from polyrhythm.cluster.nodes.fragmentation import LeastFragmentation as LeastFragmentation
from polyrhythm.cluster.nodes.fastest_ring import FastestRing as FastestRing

MEMBERS = (BinPack(), SpreadNodes(), LeastFragmentation(), FastestRing())

__all__ = ["MEMBERS", "BinPack", "FastestRing", "LeastFragmentation", "SpreadNodes"]
