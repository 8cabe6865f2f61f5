"""Asynchronous SGD with consistent and with torn reads: how far iterations fall with workers."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import linear_regression

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.records.metrics import Target
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Jitter
from polyrhythm.hardware.network import Network
from polyrhythm.local_rules import OneBlock
from polyrhythm.merge import Sum
from polyrhythm.systems import find
from polyrhythm.topology import Server
from polyrhythm_reproductions.jobs.gradients import Gradients
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_BATCH, _BLOCKS, _FEW = 8, 4, 8
_AT_FIRST = 0.3
"""The rate of the shortest run among those whose gradients are measured."""
_CON = find("asysg-con", buffer=1)
_MACHINES = Fleet((Profile("a step of 10 ms", (0.01,)),), (Jitter(0.2),))
_NETWORK = Network.uniform("1 Gbit/s", "1 Gbit/s", "0.1 ms")
_TARGET = Target("loss", 1.0)
_ALONE, _TORN, _WHOLE = "one worker", "torn reads", "consistent reads"
_ONE_BLOCK = Strategy(name="one block", consistency=LocalSteps(1, Asynchronous()), topology=Server(), merge=Sum(), local=OneBlock(_BLOCKS))
_ARMS = {_ALONE: (_CON, 1), _TORN: (find("asysg-incon", parts=_BLOCKS), _FEW), _WHOLE: (_ONE_BLOCK, _FEW)}


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, from the same grid."""
    grid = trial.size((0.03, 0.1, 0.3, 1.0), (0.1, 0.3))
    return {arm: trial.best({rate: _train(trial, arm, rate) for rate in grid}) for arm in _ARMS}


def measure(trial: ArmTrial) -> Figures:
    """Steps of a worker to the target, by workers; the loss with torn reads and with consistent ones; how gradients fall."""
    found = {arm: _train(trial, arm, trial.tuned[arm]) for arm in _ARMS}
    many = trial.size(48, 32)
    linear = {
        workers: found[_ALONE].steps_to(_TARGET) / _steps_to_target(trial, workers, trial.tuned[_ALONE]) / workers
        for workers in (_FEW, many)
    }
    return {
        "few": linear[_FEW],
        "decline": linear[many] / linear[_FEW] if linear[_FEW] else math.inf,
        "torn": found[_TORN].final / found[_WHOLE].final,
        "slope": _slope(trial),
    }


def _train(trial: ArmTrial, arm: str, rate: float) -> Result:
    strategy, workers = _ARMS[arm]
    return trial.train(arm, _job(rate, workers, _total(trial)), strategy, workers, _on(trial))


def _total(trial: ArmTrial) -> int:
    """Gradients of all workers together."""
    return trial.size(4800, 1200)


def _steps_to_target(trial: ArmTrial, workers: int, rate: float) -> float:
    """Steps to the target at the rate of one worker, as the theorem has it: not a separate arm."""
    tried = attempt(_job(rate, workers, _total(trial)), workers=workers, strategy=_CON, on=_on(trial), seed=trial.seed)
    reached = None if tried.error is not None else _TARGET.first_reached(tried.outcome)
    return math.inf if reached is None else float(reached.clock)


def _slope(trial: ArmTrial) -> float:
    """The exponent of the iterations K with which the mean squared norm of the gradient falls, at rates that fall with the root of K."""
    lengths = trial.size((300, 1200, 4800), (100, 400))
    norms = [_mean_square(trial, total, _AT_FIRST * math.sqrt(lengths[0] / total)) for total in lengths]
    x, y = [math.log(total) for total in lengths], [math.log(norm) for norm in norms]
    return linear_regression(x, y).slope


def _mean_square(trial: ArmTrial, total: int, rate: float) -> float:
    """The mean squared norm over all steps; an evaluation counts for the steps since the one before, as later ones are further apart."""
    job = Gradients(_job(rate, _FEW, total))
    events = attempt(job, workers=_FEW, strategy=_CON, on=_on(trial), seed=trial.seed).outcome.events
    found = sorted((event.clock, event.metrics["squared norm"]) for event in events if isinstance(event, Evaluated))
    return sum((clock - before) * norm for (before, _), (clock, norm) in pairwise(found)) / (found[-1][0] - found[0][0])


def _job(rate: float, workers: int, total: int) -> Teacher:
    return Teacher(SgdRecipe(rate), epochs=1, batch_size=_BATCH, samples=_BATCH * total // workers * workers, width=64)


def _on(trial: ArmTrial) -> Simulator:
    return Simulator(network=_NETWORK, devices=_MACHINES, seed=trial.seed)


REPRODUCTION = Reproduction(
    name="asysg",
    systems=("asysg-con", "asysg-incon"),
    paper="Lian, Huang, Li, Liu: Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization (NIPS 2015, arXiv:1506.08272)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives, SGD in batches of 8 at the rate tuned for one "
    "worker; 4,800 gradients of all workers together (M = 1), steps of 10 ms that vary by 20 %; steps of a worker to a held-out "
    "loss of 1.0.",
    baseline=_ALONE,
    scaling=Scaling.WEAK,
    measure=measure,
    tune=tune,
    notes=(
        "With K = 4,800 the square root of K is 69: 8 workers are below 0.3 of it, 48 above. Torn reads are emulated: each worker "
        "reads four blocks one after the other, between which others write, and writes one of them. Runs of more workers at the rate "
        "of one, and those whose gradients are measured, at a rate of 0.3 for K = 300 and half as much for four times as many, are no"
        " arms of their own: they are not tuned. The theorem bounds the mean squared gradient from above. Here the gradient grows "
        "before it falls while the network begins to learn (its square from 0.1 to above 1), and longer runs take smaller steps, so "
        "that the mean falls more slowly at these lengths. In a first run with five seeds all evaluations counted alike, though they "
        "are denser at the beginning: -0.10 to -0.19."
    ),
    claims=(
        Claim(
            paper="The speed-up is linear where the number of workers is bounded by the square root of the iterations.",
            ours="steps of one worker over those of each of 8 to the target, over 8",
            figure="few",
            unit="1",
            least=0.8,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Beyond that it need not be.",
            ours="the same part of linear with 48 workers over that with 8",
            figure="decline",
            unit="x",
            most=0.95,
        ),
        Claim(
            paper="Inconsistent reads leave the rate of convergence as it is.",
            ours="final held-out loss of 8 workers with torn reads over that with consistent ones, one of 4 blocks written at a time",
            figure="torn",
            unit="x",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="The average squared norm of the gradient falls with one over the square root of the iterations.",
            ours="the exponent of K in the squared norm of the gradient of the held-out loss, the mean over runs of 8 workers with K of "
            "300, 1,200 and 4,800",
            figure="slope",
            unit="1",
            least=-0.6,
            most=-0.4,
            kind=ClaimKind.VALUE,
        ),
    ),
)
