"""How well a filter of an image is a Gabor function, the usual model of cells that see an oriented edge (Daugman, 1985)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

_SPECTRUM = 32
_STARTS = ((1.5, 1.5), (1.2, 3.0), (3.0, 3.0))
"""Deviations across and along the edge, in pixels, with which fits begin."""
_LEAST, _MOST = 0.7, 8.0

Values = NDArray[np.float64]


def r_squared(filter_values: Values) -> float:
    """The share of the variance of a filter (side²,) that the best Gabor function has; the mean of the filter is left out.

    Centre, angle, frequency and both deviations are fitted from several starts; amplitude and phase follow by linear least squares.
    """
    side = round(filter_values.size**0.5)
    image = filter_values.reshape(side, side) - filter_values.mean()
    total = float(np.square(image).sum())
    if total == 0.0:
        return 0.0
    rows, columns = np.mgrid[:side, :side].astype(float)

    def left(parameters: Values) -> Values:
        waves = _waves(parameters, rows, columns)
        amounts = np.linalg.lstsq(waves, image.ravel(), rcond=None)[0]
        remaining: Values = image.ravel() - waves @ amounts
        return remaining

    low, high = [-1, -1, -10, 0.02, _LEAST, _LEAST], [side, side, 10, 0.6, _MOST, _MOST]
    first = _guess(image, rows, columns)
    fits = [least_squares(left, np.clip([*first, *start], low, high), bounds=(low, high), max_nfev=40) for start in _STARTS]
    return float(1 - min(2 * fit.cost for fit in fits) / total)


def _waves(parameters: Values, rows: Values, columns: Values) -> Values:
    """The cosine and the sine under the envelope (side², 2)."""
    row, column, angle, frequency, across, along = parameters
    u = (columns - column) * np.cos(angle) + (rows - row) * np.sin(angle)
    v = (rows - row) * np.cos(angle) - (columns - column) * np.sin(angle)
    envelope = np.exp(-np.square(u / across) / 2 - np.square(v / along) / 2)
    return np.stack([(envelope * wave(2 * np.pi * frequency * u)).ravel() for wave in (np.cos, np.sin)], axis=1)


def _guess(image: Values, rows: Values, columns: Values) -> tuple[float, float, float, float]:
    """Centre, angle and frequency: where the energy is, in the image and in its spectrum."""
    energy = np.square(image) / np.square(image).sum()
    spectrum = np.abs(np.fft.rfft2(image, (_SPECTRUM, _SPECTRUM)))
    y, x = np.unravel_index(np.argmax(spectrum), spectrum.shape)
    down, right = (y - _SPECTRUM if y > _SPECTRUM // 2 else y) / _SPECTRUM, x / _SPECTRUM
    return float((energy * rows).sum()), float((energy * columns).sum()), float(np.arctan2(down, right)), float(np.hypot(down, right))
