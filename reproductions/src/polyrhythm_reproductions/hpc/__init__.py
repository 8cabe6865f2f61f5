"""Mini-apps of high-performance computing on an axis, after Chien et al., 2019: STREAM, a tiled product, conjugate gradients and FFT."""

from polyrhythm_reproductions.hpc.conjugate_gradient import conjugate_gradient, laplacian_rows
from polyrhythm_reproductions.hpc.fourier import fourier_transform
from polyrhythm_reproductions.hpc.stream import streamed_bandwidth
from polyrhythm_reproductions.hpc.tiles import tiled_product

__all__ = ["conjugate_gradient", "fourier_transform", "laplacian_rows", "streamed_bandwidth", "tiled_product"]
