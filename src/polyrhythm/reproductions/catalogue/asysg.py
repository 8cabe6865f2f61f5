"""Asynchronous SGD with consistent and with torn reads: how far iterations fall with workers."""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Jitter
from polyrhythm.hardware.network import Network
from polyrhythm.local import OneBlock
from polyrhythm.merge import Sum
from polyrhythm.report.metrics import Target
from polyrhythm.reproductions.jobs.recipes import SgdRecipe
from polyrhythm.reproductions.jobs.teacher import Teacher
from polyrhythm.reproductions.protocol import Claim, Figures, Reproduction, Scaling
from polyrhythm.reproductions.trial import Result, Trial
from polyrhythm.simulator import Simulator
from polyrhythm.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm.topology import Server

_BATCH, _BLOCKS = 8, 4
_MACHINES = Fleet((Profile("a step of 10 ms", (0.01,)),), (Jitter(0.2),))
_NETWORK = Network.uniform("1 Gbit/s", "1 Gbit/s", "0.1 ms")
_TARGET = Target("loss", 1.0)
_CON, _INCON, _SNAPSHOT = "asysg-con", "asysg-incon", "one block, consistent reads"
_ARMS: dict[str, Strategy] = {
    _CON: find("asysg-con", gradients=1),
    _INCON: find("asysg-incon", blocks=_BLOCKS),
    _SNAPSHOT: Strategy(consistency=LocalSteps(1, Asynchronous()), topology=Server(), merge=Sum(), local=OneBlock(_BLOCKS)),
}


def tune(trial: Trial) -> Figures:
    """The learning rate with one worker, from the same grid for all arms: the paper's is the same for any number of workers."""
    grid, steps = trial.size((0.03, 0.1, 0.3, 1.0), (0.1, 0.3)), trial.size(800, 300)
    return {arm: trial.best({rate: _train(trial, arm, rate, 1, steps) for rate in grid}) for arm in _ARMS}


def measure(trial: Trial) -> Figures:
    """Steps of a worker to the target, by workers; and the loss with torn reads beside that with consistent ones."""
    total, few, many = trial.size(4800, 1600), 8, trial.size(48, 32)
    steps = {workers: _train(trial, _CON, trial.tuned[_CON], workers, total // workers).steps_to(_TARGET) for workers in (1, few, many)}
    torn, whole = (_train(trial, arm, trial.tuned[_SNAPSHOT], few, total // few).final for arm in (_INCON, _SNAPSHOT))
    return {
        "few": steps[1] / steps[few] / few,
        "decline": (steps[1] / steps[many] / many) / (steps[1] / steps[few] / few),
        "torn": torn / whole,
    }


def _train(trial: Trial, arm: str, rate: float, workers: int, steps: int) -> Result:
    job = Teacher(SgdRecipe(rate), epochs=1, batch_size=_BATCH, samples=_BATCH * workers * steps, width=64)
    return trial.train(arm, job, _ARMS[arm], workers, Simulator(network=_NETWORK, devices=_MACHINES, seed=trial.seed))


REPRODUCTION = Reproduction(
    name="asysg",
    systems=("asysg-con", "asysg-incon"),
    paper="Lian, Huang, Li, Liu: Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization (NIPS 2015, arXiv:1506.08272)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives, SGD in batches of 8 at the rate tuned for one "
    "worker; 4,800 gradients of all workers together (M = 1), steps of 10 ms that vary by 20 %; steps of a worker to a held-out "
    "loss of 1.0.",
    baseline=_CON,
    scaling=Scaling.WEAK,
    measure=measure,
    tune=tune,
    notes="With K = 4,800 the square root of K is 69: 8 workers are below 0.3 of it, 48 above. Torn reads are emulated: each worker reads "
    "four blocks one after the other, between which others write, and writes one of them.",
    claims=(
        Claim(
            paper="The speed-up is linear where the number of workers is bounded by the square root of the iterations.",
            ours="steps of one worker over those of each of 8 to the target, over 8",
            figure="few",
            unit="1",
            least=0.8,
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
        ),
        Claim(
            paper="The average squared norm of the gradient falls with one over the square root of the iterations.",
            untestable="evaluations here are of losses on held-out data; norms of full gradients along a run are not recorded",
        ),
    ),
)
