"""Less memory at a rank: activations that are kept in parts."""

from polyrhythm.partition.memory.partitioned import PartitionedActivations

__all__ = ["PartitionedActivations"]
