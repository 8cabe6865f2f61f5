"""Convolutions whose images, or whose channels and filters, are divided among ranks."""

from polyrhythm.partition.convolution.channels import Channels
from polyrhythm.partition.convolution.cut import spatial_cut
from polyrhythm.partition.convolution.distribution import ImageBatch, Distribution
from polyrhythm.partition.convolution.dropout import SpatialDropout
from polyrhythm.partition.convolution.ends import SpatialMean, WholeImages
from polyrhythm.partition.convolution.entrance import from_whole
from polyrhythm.partition.convolution.filters import ChannelNorm, StationaryW, StationaryX, StationaryY, WholeChannels, stationary
from polyrhythm.partition.convolution.hybrid import HybridCut, Rates
from polyrhythm.partition.convolution.image import Image
from polyrhythm.partition.convolution.locally_connected import LocallyConnected, LocallyConnected2d
from polyrhythm.partition.convolution.norm import SpatialNorm
from polyrhythm.partition.convolution.spatial import SpatialConv, SpatialPool

__all__ = [
    "ChannelNorm",
    "Channels",
    "Distribution",
    "HybridCut",
    "Image",
    "ImageBatch",
    "LocallyConnected",
    "LocallyConnected2d",
    "Rates",
    "SpatialConv",
    "SpatialDropout",
    "SpatialMean",
    "SpatialNorm",
    "SpatialPool",
    "StationaryW",
    "StationaryX",
    "StationaryY",
    "WholeChannels",
    "WholeImages",
    "from_whole",
    "spatial_cut",
    "stationary",
]
