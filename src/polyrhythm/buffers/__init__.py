"""Buffers: the treatment of batch-norm statistics and other buffers when a run finishes."""

from polyrhythm.buffers.mean_buffers import MeanBuffers
from polyrhythm.buffers.own_buffers import OwnBuffers
from polyrhythm.buffers.recalibrated_buffers import RecalibratedBuffers

MEMBERS = (MeanBuffers(), OwnBuffers(), RecalibratedBuffers(4))
"""One of each kind: the laws are tested over this list."""

__all__ = ["MEMBERS", "MeanBuffers", "OwnBuffers", "RecalibratedBuffers"]
