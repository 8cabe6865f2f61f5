"""Digits as one draws them: strokes in the unit square, x to the right and y down."""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sin

Stroke = list[tuple[float, float]]


def arc(x: float, y: float, width: float, height: float, begin: float, end: float) -> Stroke:
    """Part of an ellipse around (x, y), from one angle to another in turns, clockwise from the right."""
    steps = 24
    angles = [2 * pi * (begin + (end - begin) * k / steps) for k in range(steps + 1)]
    return [(x + width * cos(angle), y + height * sin(angle)) for angle in angles]


def line(*points: tuple[float, float]) -> Stroke:
    """Straight pieces, with points between."""
    found: Stroke = []
    for (x, y), (u, v) in pairwise(points):
        found += [(x + (u - x) * k / 8, y + (v - y) * k / 8) for k in range(9)]
    return found


DRAWN: dict[str, list[Stroke]] = {
    "0": [arc(0.5, 0.5, 0.22, 0.33, -0.25, 0.75)],
    "1": [line((0.38, 0.3), (0.52, 0.17), (0.52, 0.83))],
    "2": [arc(0.5, 0.34, 0.2, 0.17, -0.5, 0.1) + line((0.66, 0.45), (0.3, 0.82), (0.72, 0.82))],
    "3": [arc(0.47, 0.33, 0.2, 0.16, -0.45, 0.25) + arc(0.47, 0.66, 0.22, 0.17, -0.25, 0.45)],
    "4": [line((0.45, 0.15), (0.27, 0.58), (0.74, 0.58)), line((0.62, 0.38), (0.58, 0.86))],
    "5": [line((0.7, 0.17), (0.36, 0.17), (0.34, 0.46)) + arc(0.47, 0.62, 0.22, 0.2, -0.35, 0.42)],
    "6": [line((0.6, 0.15), (0.42, 0.35), (0.34, 0.6)) + arc(0.5, 0.66, 0.17, 0.16, 0.5, 1.5)],
    "7": [line((0.3, 0.18), (0.7, 0.18), (0.45, 0.84)), line((0.38, 0.52), (0.66, 0.52))],
    "8": [arc(0.5, 0.33, 0.15, 0.16, 0.25, 1.25) + arc(0.5, 0.66, 0.18, 0.17, -0.25, 0.75)],
    "9": [arc(0.5, 0.34, 0.17, 0.16, 0.0, 1.0) + line((0.67, 0.34), (0.64, 0.6), (0.56, 0.84))],
}
