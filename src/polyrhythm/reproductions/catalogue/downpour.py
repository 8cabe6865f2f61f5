"""Downpour SGD, and asynchronous SGD on a few GPUs: stragglers, Adagrad, throughput and a warm start."""

from __future__ import annotations

from polyrhythm.consistency import Intervals
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Straggler
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Sum
from polyrhythm.report.metrics import Target
from polyrhythm.reproductions.jobs.recipes import SgdRecipe
from polyrhythm.reproductions.jobs.teacher import Teacher
from polyrhythm.reproductions.protocol import Claim, Efficiency, Figures, Reproduction
from polyrhythm.reproductions.trial import Result, Trial
from polyrhythm.simulator import Simulator
from polyrhythm.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm.topology import Server

_STEP = Profile("a step of 10 ms", (0.01,))
_SLOW = Fleet((_STEP,), (Straggler(worker=3, factor=5.0),))
_NETWORK = Network.uniform("1 Gbit/s", "1 Gbit/s", "0.1 ms")
_TARGET, _LEARNED = Target("loss", 1.0), 1.3
_RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
_LOCKSTEP, _DOWNPOUR, _FIXED, _ALONE, _ZHANG, _COLD, _WARM = (
    *("lockstep", "downpour", "downpour without Adagrad", "alone", "zhang-asgd"),
    *("paine, cold", "paine, warm"),
)
_ARMS: dict[str, tuple[Strategy, int]] = {
    _LOCKSTEP: (Strategy(topology=Server()), 4),
    _DOWNPOUR: (find("downpour"), 4),
    _FIXED: (Strategy(consistency=Intervals(), topology=Server(), merge=Sum()), 4),
    _ALONE: (find("single"), 1),
    _ZHANG: (find("zhang-asgd"), 4),
    _COLD: (find("paine", warm_start=0), 4),
    _WARM: (find("paine", warm_start=20), 4),
}


def tune(trial: Trial) -> Figures:
    """The learning rate of each arm, with 4 workers or alone, from the same grid."""
    grid = trial.size(_RATES, (0.01, 0.03, 0.1))
    return {arm: trial.best({rate: _train(trial, arm, _job(arm, rate, trial.size(200, 100))) for rate in grid}) for arm in _ARMS}


def measure(trial: Trial) -> Figures:
    """Seconds beside a straggler; the most replicas that still learn; throughput and accuracy of four clients; the loss after 60 steps."""
    steps, rate = trial.size(400, 150), trial.tuned
    slow = {arm: _train(trial, arm, _job(arm, rate[arm], steps), on=_on(trial, _SLOW)) for arm in (_LOCKSTEP, _DOWNPOUR)}
    most = {arm: _most(trial, arm, rate[arm]) for arm in (_DOWNPOUR, _FIXED)}
    alone, four = (_train(trial, arm, _job(arm, rate[arm], trial.size(1600, 600) // _ARMS[arm][1])) for arm in (_ALONE, _ZHANG))
    early = {arm: _train(trial, arm, _job(arm, rate[arm], 60, 8), 8) for arm in (_COLD, _WARM)}
    return {
        "time": slow[_DOWNPOUR].seconds_to(_TARGET) / slow[_LOCKSTEP].seconds_to(_TARGET),
        "replicas": most[_DOWNPOUR] / most[_FIXED],
        "throughput": alone.seconds / four.seconds,
        "loss of accuracy": 100 * (alone.metric("accuracy") - four.metric("accuracy")),
        "early": early[_WARM].final / early[_COLD].final,
    }


def _most(trial: Trial, arm: str, rate: float) -> float:
    """The largest number of replicas up to which all have learned after 60 steps of each."""
    found = 2.0
    for workers in trial.size((4, 8, 16, 32), (4, 16)):
        if not _train(trial, arm, _job(arm, rate, 60, workers), workers).final <= _LEARNED:
            break
        found = float(workers)
    return found


def _job(arm: str, rate: float, steps: int, workers: int = 0) -> Teacher:
    """So many steps of each worker; of as many as the arm has, if nothing else is said."""
    return Teacher(SgdRecipe(rate), epochs=1, batch_size=16, samples=16 * (workers or _ARMS[arm][1]) * steps, width=64)


def _train(trial: Trial, arm: str, job: Teacher, workers: int = 0, on: Simulator | None = None) -> Result:
    strategy, count = _ARMS[arm]
    return trial.train(arm, job, strategy, workers or count, on or _on(trial, Fleet((_STEP,))))


def _on(trial: Trial, devices: Fleet) -> Simulator:
    return Simulator(network=_NETWORK, devices=devices, seed=trial.seed)


REPRODUCTION = Reproduction(
    name="downpour",
    systems=("downpour", "zhang-asgd", "paine"),
    paper="Dean et al.: Large Scale Distributed Deep Networks (NIPS 2012); Zhang, Zhang, You, Zheng, Xu (ICASSP 2013); Paine, Jin, Yang, "
    "Lin, Huang: GPU Asynchronous Stochastic Gradient Descent to Speed Up Neural Network Training (2013, arXiv:1312.6186)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives, SGD or the servers' Adagrad in batches of 16, "
    "rates tuned for each arm on one grid with 4 workers (or one), steps of 10 ms, 1 Gbit/s; one of 4 workers 5 times slower for the "
    "first claim.",
    baseline=_LOCKSTEP,
    machines="The first claim is about a slow machine; the others are on equal ones.",
    notes="Replicas have learned where the held-out loss is at most 1.3 after 60 steps of each, guessing being 2.3; rates are those tuned "
    "for 4 replicas. Fixed rates are those of the same servers without Adagrad, each gradient counting in full.",
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="Asynchronous replicas are robust to slow machines.",
            ours="seconds of downpour to a held-out loss of 1.0 over those of a server in lockstep, one of 4 workers 5 times slower",
            figure="time",
            unit="x",
            most=0.6,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Adagrad extends the number of replicas that can work together.",
            ours="the most replicas that learn with Adagrad over the most with a fixed rate",
            figure="replicas",
            unit="x",
            least=2.0,
        ),
        Claim(
            paper="Pieces of a batch that are given out twice near its end keep Sandblaster L-BFGS from waiting for slow replicas.",
            untestable="belongs to L-BFGS, whose batches are computed in pieces; every system here takes steps on minibatches",
        ),
        Claim(
            paper="Four GPUs train 3.2 times as fast as one (Zhang et al.).",
            ours="seconds of one worker over those of 4 clients for as many samples",
            figure="throughput",
            unit="x",
            least=2.6,
            most=4.0,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="There is no loss of recognition (Zhang et al.).",
            ours="accuracy of one worker minus that of 4 clients after as many samples",
            figure="loss of accuracy",
            unit="points",
            most=1.0,
        ),
        Claim(
            paper="Asynchronous SGD needs a warm start (Paine et al.).",
            ours="held-out loss of 8 clients after 60 steps of each, exchanges every 10, with a warm start of 20 over that without",
            figure="early",
            unit="x",
            most=1.0,
        ),
        Claim(
            paper="Locally connected models scale better over machines than fully connected ones.",
            untestable="needs one model partitioned over machines, and every worker here holds the whole model",
        ),
    ),
)
