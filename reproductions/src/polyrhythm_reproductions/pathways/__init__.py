"""A single controller for programs over many devices, after Barham et al., 2022: dispatch before inputs come, and gangs in one order."""

from polyrhythm_reproductions.pathways.chain import DispatchChain, ParallelDispatch, SequentialDispatch, WithoutController, chain_seconds
from polyrhythm_reproductions.pathways.gangs import IslandOrder, NoOrder, race_deadlocks

__all__ = [
    "DispatchChain",
    "IslandOrder",
    "NoOrder",
    "ParallelDispatch",
    "SequentialDispatch",
    "WithoutController",
    "chain_seconds",
    "race_deadlocks",
]
