"""Buffers: the treatment of batch-norm statistics and other buffers when a run finishes."""

from polyrhythm.core.protocols import declared
from polyrhythm.buffers.mean_buffers import MeanBuffers as MeanBuffers
from polyrhythm.buffers.own_buffers import OwnBuffers as OwnBuffers
from polyrhythm.buffers.recalibrated_buffers import RecalibratedBuffers as RecalibratedBuffers

MEMBERS = declared.members(globals())
"""Examples of each piece, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
