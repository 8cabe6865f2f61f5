"""Convolutions whose images, or whose channels and filters, are divided among ranks."""

from polyrhythm.partition.convolution.cut import spatial_cut
from polyrhythm.partition.convolution.ends import SpatialMean, WholeImages
from polyrhythm.partition.convolution.image import Image
from polyrhythm.partition.convolution.norm import SpatialNorm
from polyrhythm.partition.convolution.spatial import SpatialConv, SpatialPool

__all__ = ["Image", "SpatialConv", "SpatialMean", "SpatialNorm", "SpatialPool", "WholeImages", "spatial_cut"]
