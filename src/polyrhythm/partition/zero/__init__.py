"""ZeRO: along an axis of replicas, each has a part of the optimizer's state, of the gradients, or of the weights too."""

from polyrhythm.partition.zero.zero import Zero

__all__ = ["Zero"]
