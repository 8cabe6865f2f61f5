"""Elephas: three modes of the same training, and writes that one of them loses."""

from __future__ import annotations

import math
from dataclasses import replace

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import WithWorkers
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _BATCH, _SAMPLES = 4, 16, 8192
_COMPUTE = 1e-3
_SYNCHRONOUS, _LOCKED, _HOGWILD = "elephas", "elephas-asynchronous", "elephas-hogwild"


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each mode, from the same grid."""
    grid = trial.size((0.03, 0.1, 0.3), (0.03, 0.3))
    return {mode: trial.best({rate: _train(trial, mode, rate) for rate in grid}) for mode in _modes()}


def measure(trial: ArmTrial) -> Figures:
    """Accuracy of each mode in virtual time, and the writes that two real processes have lost."""
    found = {mode: _train(trial, mode, trial.tuned[mode]) for mode in _modes()}
    accuracies = [result.metric("accuracy") for result in found.values()]
    return {
        "spread": 100 * (max(accuracies) - min(accuracies)),
        "lost": _lost_writes(trial),
    }


def _modes() -> dict[str, Strategy]:
    """The synchronous one averages after each epoch."""
    epoch = _SAMPLES // (_WORKERS * _BATCH)
    return {_SYNCHRONOUS: find(_SYNCHRONOUS, period=epoch), _LOCKED: find(_LOCKED), _HOGWILD: find(_HOGWILD)}


def _train(trial: ArmTrial, mode: str, rate: float) -> Result:
    job = Teacher(SgdRecipe(rate), epochs=trial.size(6, 4), batch_size=_BATCH, samples=_SAMPLES, width=64)
    # one host: messages between processes take what they take over a local socket
    network = replace(Network.uniform("one host", "51.2 Gbit/s", "10 us"), placement=WithWorkers())
    runtime = Simulator(network=network, devices=Profile("a step of 1 ms", (_COMPUTE,)), seed=trial.seed)
    return trial.train(mode, job, _modes()[mode], _WORKERS, runtime)


def _lost_writes(trial: ArmTrial) -> float:
    """The lost writes of two real processes in the mode without locks; not a number where they are not counted."""
    job = Teacher(SgdRecipe(1e-3), epochs=1, batch_size=1, samples=trial.size(4096, 1024), width=8192, depth=1)  # many rows to write
    tried = attempt(job, workers=2, strategy=_modes()[_HOGWILD], on=Processes(seed=trial.seed), seed=trial.seed)
    lost = tried.completed().summary.lost_writes
    return math.nan if lost is None else lost


REPRODUCTION = Reproduction(
    name="elephas",
    systems=(_SYNCHRONOUS, _LOCKED, _HOGWILD),
    paper="Pumperla: Elephas: Distributed Deep Learning with Keras & Spark (2015)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives, SGD at a rate tuned for each "
    "mode on one grid, 4 workers "
    "in batches of 16, in virtual time on one host (a step takes 1 ms). Adagrad at the driver of the asynchronous mode; the "
    "synchronous one averages "
    "after each epoch. Lost writes are those of 2 real processes in batches of 1, which train a wide layer.",
    baseline=_SYNCHRONOUS,
    notes="Writes are counted in runs of real processes, which are compared neither in quality nor in seconds and are not "
    "among the arms. Writes take microseconds of milliseconds, so that few fall together: on a busy machine none may be "
    "lost.",
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="The mode is a setting of the same training: synchronous, asynchronous or hogwild.",
            ours="best held-out accuracy of the three modes less the worst, at equal samples",
            figure="spread",
            unit="points",
            most=2.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Hogwild takes no locks and serves at least as many updates in a second.",
            untestable="Taking a lock, and waiting for one, costs nothing in virtual time.",
        ),
        Claim(
            paper="Without locks updates may be lost.",
            ours="writes of rows that were lost in hogwild mode",
            figure="lost",
            unit="1",
            least=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Locks prevent that updates are lost.",
            untestable="Lost writes are counted in memory that workers share, which only hogwild has here: in the other modes only the "
            "driver writes.",
        ),
    ),
)
