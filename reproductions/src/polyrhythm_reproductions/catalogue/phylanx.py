"""Phylanx: Python functions as graphs of tasks without barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyrhythm.core import rng
from polyrhythm_reproductions.phylanx import FutureGraph, futurise, futurised_seconds, in_levels_seconds, run_on_threads
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS, _TILES, _TIMES, _BLOCKS, _SIZE = 4, 4, 40, 8, 6
_JITTER = 0.3


def smoothed(now: Any, then: Any, count: int, times: int) -> Any:
    """Tiles that become the mean of themselves and their two neighbours, again and again: none waits for those far away."""
    for _ in range(times):
        for k in range(count):
            then[k] = mean(now[(k - 1) % count], now[k], now[(k + 1) % count])
        now, then = then, now
    return joined(now[0], now[1], now[2], now[3])


def factorised(blocks: Any, count: int) -> Any:
    """The last block of a Cholesky factor: blocks are those of a matrix by row and column."""
    for k in range(count):
        blocks[k, k] = root(blocks[k, k])
        for i in range(k + 1, count):
            blocks[i, k] = solved(blocks[k, k], blocks[i, k])
        for i in range(k + 1, count):
            for j in range(k + 1, i + 1):
                blocks[i, j] = updated(blocks[i, j], blocks[i, k], blocks[j, k])
    return whole(blocks[count - 1, count - 1])


def mean(left: np.ndarray, here: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Of three tiles."""
    return np.asarray((left + here + right) / 3)


def joined(*tiles: np.ndarray) -> np.ndarray:
    """Tiles end to end."""
    return np.concatenate(tiles)


def whole(block: np.ndarray) -> np.ndarray:
    """The block itself."""
    return block


def root(block: np.ndarray) -> np.ndarray:
    """The Cholesky factor of a block."""
    return np.linalg.cholesky(block)


def solved(triangle: np.ndarray, block: np.ndarray) -> np.ndarray:
    """A block under the diagonal of the factor."""
    return np.asarray(np.linalg.solve(triangle, block.T).T)


def updated(block: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A block less what the columns before explain."""
    return np.asarray(block - left @ right.T)


_PRIMITIVES = {each.__name__: each for each in (mean, joined, root, solved, updated, whole)}


def measure(trial: ArmTrial) -> Figures:
    """Virtual seconds of two programs with tasks of unequal length, and their results."""
    programs = {"smoothing": _smoothing(trial.seed), "factorising": _factorising(trial.seed)}
    figures: dict[str, float] = {}
    bounds, wrong = [], []
    for name, (graph, expected) in programs.items():
        seconds = np.maximum(rng.stream(trial.seed, name).normal(1.0, _JITTER, len(graph.tasks)), 0.1).tolist()
        found, free = futurised_seconds(graph, _WORKERS, seconds)
        _, waiting = in_levels_seconds(graph, _WORKERS, seconds)
        bounds.append(free / (sum(seconds) / _WORKERS + graph.longest(seconds)))
        figures[f"{name} shorter"] = 100 * (1 - free / waiting)
        wrong += [float(np.abs(each - expected).max()) for each in (found, run_on_threads(graph, 2))]
    return {**figures, "bound": max(bounds), "difference": max(wrong)}


def _smoothing(seed: int) -> tuple[FutureGraph, np.ndarray]:
    values = rng.stream(seed, "tiles").normal(size=(_TILES, _SIZE))
    graph = futurise(smoothed, _PRIMITIVES, list(values), [None] * _TILES, _TILES, _TIMES)
    return graph, smoothed(list(values), [None] * _TILES, _TILES, _TIMES)


def _factorising(seed: int) -> tuple[FutureGraph, np.ndarray]:
    side = _BLOCKS * _SIZE
    drawn = rng.stream(seed, "matrix").normal(size=(side, side))
    matrix = drawn @ drawn.T + side * np.eye(side)
    cut = [slice(k * _SIZE, (k + 1) * _SIZE) for k in range(_BLOCKS)]
    blocks = {(i, j): matrix[cut[i], cut[j]] for i in range(_BLOCKS) for j in range(i + 1)}
    return futurise(factorised, _PRIMITIVES, dict(blocks), _BLOCKS), np.linalg.cholesky(matrix)[cut[-1], cut[-1]]


def _shorter(figure: str, what: str) -> Claim:
    return Claim(
        paper=f"Tasks that wait for their inputs only, and for no barrier, take less time: {what}.",
        ours="virtual seconds that are saved, of those with a barrier after each level",
        figure=f"{figure} shorter",
        unit="%",
        least=15.0,
        efficiency=Efficiency.SYSTEM,
    )


REPRODUCTION = Reproduction(
    name="phylanx",
    systems=(),
    paper="Tohid et al.: Asynchronous Execution of Python Code on Task-Based Runtime Systems (ESPM2 2018, arXiv:1810.07591)",
    setting="Two Python functions, whose syntax becomes graphs of tasks: 40 times the mean of 4 tiles and their neighbours (161 tasks), "
    "and a Cholesky factor of 8 x 8 blocks (121 tasks). On 4 workers, with tasks of a second and a standard deviation of 30 %.",
    measure=measure,
    notes="Tasks take drawn seconds of virtual time and compute what they should; nothing is trained. HPX's global addresses and messages "
    "between machines are left out: workers share memory. Barriers are after each level of the graph, and within a level tasks are taken "
    "in order by the worker that is free first. Of four tiles each needs three, which is almost a barrier by itself.",
    claims=(
        _shorter("smoothing", "a program whose tasks need their neighbours"),
        _shorter("factorising", "a program whose levels are uneven"),
        Claim(
            paper="The time is near W/p + D, of all work among the workers and the longest way.",
            ours="virtual seconds over W/p + D, the larger of two programs",
            figure="bound",
            unit="ratio",
            most=1.15,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A function computes what it did before its calls became tasks.",
            ours="largest difference from numpy's result and from the function itself, in virtual time and on two threads",
            figure="difference",
            unit="difference",
            most=1e-10,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(paper="Performance near that of NumPy on one node.", untestable="Real seconds of such small blocks say nothing."),
    ),
)
