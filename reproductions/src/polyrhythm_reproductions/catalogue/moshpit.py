"""Moshpit SGD: averages over groups that change."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from polyrhythm.core.rng import stream
from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.faults import Crash
from polyrhythm.systems import find
from polyrhythm.topology import MetropolisHastings, RingGraph
from polyrhythm.topology.graphs.grid import line
from polyrhythm.topology.graphs.mixing_weights import matrix
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _LOST = 16, 3
_PEERS, _DIMENSIONS, _FAILING = 64, 2, 0.05
_ENOUGH, _MOST_ROUNDS = 1e-3, 20_000
_CENTRAL, _MOSHPIT, _CHURN = "all-reduce", "moshpit", "moshpit, 3 of 16 lost"
_ARMS = {_CENTRAL: find("allreduce"), _MOSHPIT: find("moshpit")}

Values = npt.NDArray[np.float64]
Averaging = Callable[[Values, int, npt.NDArray[np.bool_], np.random.Generator], Values]
"""One round: the values, its number, the peers that take part, and a random stream."""


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, from the same grid, while nobody is lost."""
    grid = trial.size((0.03, 0.1, 0.3), (0.1,))
    arms = {**{arm: arm for arm in _ARMS}, _CHURN: _MOSHPIT}
    return {name: trial.best({rate: _train(trial, name, arm, rate) for rate in grid}) for name, arm in arms.items()}


def measure(trial: ArmTrial) -> Figures:
    """Rounds of averaging alone, and the loss of training with and without crashes."""
    central = _train(trial, _CENTRAL, _CENTRAL, trial.tuned[_CENTRAL])
    whole = _train(trial, _MOSHPIT, _MOSHPIT, trial.tuned[_MOSHPIT])
    faults = tuple(Crash(f"worker/{_WORKERS - 1 - k}", (k + 1) * whole.seconds / 5) for k in range(_LOST))
    broken = _train(trial, _CHURN, _MOSHPIT, trial.tuned[_CHURN], faults)
    draw = stream(trial.seed, "moshpit")
    given = draw.normal(size=_PEERS)
    grid, pairs, ring = (_rounds(given, how, draw) for how in (_on_grid, _by_pairs, _on_ring))
    return {
        "left": _left_of_full_grid(given, draw),
        "grid": grid,
        "than pairs": pairs / grid,
        "than ring": ring / grid,
        "loss": whole.final / central.final,
        "churn": broken.final / whole.final,
    }


def _train(trial: ArmTrial, name: str, arm: str, rate: float, faults: tuple[Crash, ...] = ()) -> Result:
    job = Teacher(SgdRecipe(rate), epochs=trial.size(8, 1), batch_size=8)
    return trial.train(name, job, _ARMS[arm], _WORKERS, Simulator(seed=trial.seed, faults=faults))


def _left_of_full_grid(given: Values, draw: np.random.Generator) -> float:
    """The disagreement after as many rounds as the grid has dimensions, with nobody failing, relative to the first."""
    x = given
    for number in range(_DIMENSIONS):
        x = _on_grid(x, number, np.ones(_PEERS, dtype=bool), draw)
    return float(x.std() / given.std())


def _rounds(given: Values, how: Averaging, draw: np.random.Generator) -> float:
    """Rounds until the disagreement is a thousandth of the first, where each peer fails in a round with probability 1/20."""
    x = given
    for number in range(_MOST_ROUNDS):
        if x.std() <= _ENOUGH * given.std():
            return float(number)
        x = how(x, number, draw.random(_PEERS) >= _FAILING, draw)
    return math.inf


def _on_grid(x: Values, number: int, there: npt.NDArray[np.bool_], draw: np.random.Generator) -> Values:
    """A group averages over those who are there; who fails keeps its own."""
    mixed = x.copy()
    for group in {line(rank, number % _DIMENSIONS, _PEERS, _DIMENSIONS) for rank in range(_PEERS)}:
        present = [rank for rank in group if there[rank]]
        mixed[present] = x[present].mean() if present else 0.0
    return mixed


def _by_pairs(x: Values, number: int, there: npt.NDArray[np.bool_], draw: np.random.Generator) -> Values:
    """Random pairs average, if both are there."""
    mixed, order = x.copy(), draw.permutation(_PEERS)
    for a, b in zip(order[::2], order[1::2], strict=True):
        if there[a] and there[b]:
            mixed[[a, b]] = (x[a] + x[b]) / 2
    return mixed


def _on_ring(x: Values, number: int, there: npt.NDArray[np.bool_], draw: np.random.Generator) -> Values:
    """Gossip on a ring, over links whose ends are both there."""
    shares = _ring() * np.outer(there, there)
    mixed: Values = x + shares @ x - shares.sum(1) * x
    return mixed


@cache
def _ring() -> Values:
    return matrix(RingGraph(), MetropolisHastings(), _PEERS)


REPRODUCTION = Reproduction(
    name="moshpit",
    systems=("moshpit",),
    paper="Ryabinin, Gorbunov, Plokhotnyuk, Pekhimenko: Moshpit SGD: Communication-Efficient Decentralized Training on Heterogeneous "
    "Unreliable Devices (NeurIPS 2021)",
    setting="Averaging alone: a normal number for each of 64 peers on a grid of 8 by 8, each of which fails in a round with probability "
    "1/20. Training: `teacher` (20,490 parameters, SGD at a rate tuned for each arm on one grid), 16 workers on a grid of 4 by 4 in "
    "batches of 8, in virtual time on `lan`. The paper has up to 1,024 peers, ResNet-50 and ALBERT.",
    baseline=_CENTRAL,
    machines="One arm loses three of its 16 workers, one after the other, as its claim has it.",
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="With as many peers as the grid has cells, d rounds give the exact average.",
            ours="disagreement of 64 peers after two rounds, relative to the first",
            figure="left",
            unit="ratio",
            most=1e-12,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Averaging converges exponentially fast in spite of failing peers.",
            ours="rounds to a thousandth of the first disagreement, where a peer fails in a round with probability 1/20",
            figure="grid",
            unit="rounds",
            most=12.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="It needs fewer rounds than gossip.",
            ours="rounds of random pairs over those on the grid, with the same failures",
            figure="than pairs",
            unit="x",
            least=1.5,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="Its convergence does not depend on the spectrum of a graph.",
            ours="rounds of gossip on a ring over those on the grid, with the same failures",
            figure="than ring",
            unit="x",
            least=20.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="Moshpit SGD trains as all-reduce does.",
            ours="held-out loss over that of all-reduce at equal samples, one round a step",
            figure="loss",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Training goes on when peers are lost.",
            ours="held-out loss where 3 of 16 workers are lost one after the other, over that where none is",
            figure="churn",
            unit="ratio",
            most=1.1,
            kind=ClaimKind.NO_WORSE,
        ),
    ),
)
