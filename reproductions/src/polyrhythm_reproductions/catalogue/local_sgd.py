"""Local SGD: averages of the weights every few steps, by how many steps these are."""

from __future__ import annotations

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Jitter
from polyrhythm.hardware.network import Network
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _BATCH = 8, 8
_TARGET = Target("loss", 1.0)
_MACHINES = Fleet((Profile("a step of 10 ms", (0.01,)),), (Jitter(0.2),))
_NETWORK = Network.uniform("1 Gbit/s", "1 Gbit/s", "18 ms")
_ONE, _BATCHED, _FEW, _SOME, _MANY = "one worker", "mini-batch", "tau = 4", "tau = 16", "tau = 150"
_ARMS: dict[str, tuple[Strategy, int]] = {
    _ONE: (find("single"), 1),
    _BATCHED: (find("allreduce"), _WORKERS),
    _FEW: (find("local-sgd", period=4), _WORKERS),
    _SOME: (find("local-sgd", period=16), _WORKERS),
    _MANY: (find("local-sgd", period=150), _WORKERS),
}


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, from the same grid."""
    grid = trial.size((0.03, 0.1, 0.3, 1.0), (0.1, 0.3))
    return {arm: trial.best({rate: _train(trial, arm, rate) for rate in grid}) for arm in _ARMS}


def measure(trial: ArmTrial) -> Figures:
    """Losses and bytes at equal samples, steps and seconds to a loss."""
    found = {arm: _train(trial, arm, trial.tuned[arm]) for arm in _ARMS}
    one, batched, few, some, many = found.values()
    return {
        "loss": some.final / batched.final,
        "speed-up": one.steps_to(_TARGET) / few.steps_to(_TARGET),
        "bytes": batched.nbytes / some.nbytes,
        "sooner": batched.seconds_to(_TARGET) / some.seconds_to(_TARGET),
        "too many": many.steps_to(_TARGET) / few.steps_to(_TARGET),
    }


def _train(trial: ArmTrial, arm: str, rate: float) -> Result:
    strategy, workers = _ARMS[arm]
    job = Teacher(SgdRecipe(rate), epochs=1, batch_size=_BATCH, samples=trial.size(38400, 7680), width=64)
    return trial.train(arm, job, strategy, workers, Simulator(_NETWORK, _MACHINES, seed=trial.seed))


REPRODUCTION = Reproduction(
    name="local-sgd",
    systems=("local-sgd",),
    paper="Stich: Local SGD Converges Fast and Communicates Little (ICLR 2019, arXiv:1805.09767)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives, 8 workers in batches of 8, SGD at "
    "rates tuned for "
    "each arm on one grid, steps of 10 ms that vary by a fifth, in virtual time on 1 Gbit/s and 18 ms one way, so that a ring takes "
    "about 25 steps, as in the paper's figures; 38,400 samples in all; a held-out loss of 1.0. The paper: logistic regression, of "
    "which its "
    "theorem is too.",
    baseline=_BATCHED,
    scaling=Scaling.WEAK,
    stop="after a number of samples that was fixed beforehand; steps and seconds are those until the target was first reached",
    notes="The rate of one worker is the lowest of the grid; those of the others are not at its edge.",
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="It converges at the rate of mini-batch SGD.",
            ours="held-out loss with tau = 16 over that of mini-batch SGD at equal samples",
            figure="loss",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="The speed-up is linear in the number of workers.",
            ours="steps of one worker to the target over those of each of 8 with tau = 4 (linear: 8; at least 0.8 of that)",
            figure="speed-up",
            unit="x",
            least=6.4,
        ),
        Claim(
            paper="It communicates as many times less as a worker takes steps between averages.",
            ours="bytes of mini-batch SGD over those with tau = 16, with what all send at beginning and end",
            figure="bytes",
            unit="ratio",
            least=14.0,
            most=16.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Where an exchange takes as long as 25 steps, the target is reached sooner with local steps.",
            ours="seconds of mini-batch SGD to the target over those with tau = 16",
            figure="sooner",
            unit="x",
            least=2.0,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="With too many local steps the speed-up is lost.",
            ours="steps to the target with tau = 150 over those with tau = 4",
            figure="too many",
            unit="x",
            least=1.09,
        ),
        Claim(
            paper="For strongly convex functions tau may grow with the square root of the number of steps.",
            untestable="It is a bound on the order of an error; constants decide at lengths that can be run here.",
        ),
    ),
)
