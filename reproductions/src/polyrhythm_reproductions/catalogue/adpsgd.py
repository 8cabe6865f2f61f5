"""AD-PSGD: averages of pairs that nobody waits for, with equal workers and with a slow one."""

from __future__ import annotations

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Jitter, Mixed
from polyrhythm.hardware.network import Network
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _BATCH = 8, 8
_TARGET = Target("loss", 1.0)
_STEP = Profile("a step of 10 ms", (0.01,))
_EQUAL = Fleet((_STEP,), (Jitter(0.2),))
_ONE_SLOW = Fleet((_STEP,), (Mixed((*(1.0 for _ in range(_WORKERS - 1)), 0.25)), Jitter(0.2)))
_FAST = Network.uniform("10 Gbit/s", "10 Gbit/s", "0.05 ms")
_SYSTEMS = ("allreduce", "decentralized", "adpsgd")
_ARMS = {f"{system}, {kind}": (system, fleet) for kind, fleet in (("equal", _EQUAL), ("one slow", _ONE_SLOW)) for system in _SYSTEMS}


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, with the machines that it will have, from the same grid."""
    grid = trial.size((0.1, 0.3, 1.0), (0.1, 0.3))
    return {arm: trial.best({rate: _train(trial, arm, rate) for rate in grid}) for arm in _ARMS}


def measure(trial: ArmTrial) -> Figures:
    """Losses at equal samples, and seconds to a loss with and without a slow worker."""
    found = {arm: _train(trial, arm, trial.tuned[arm]) for arm in _ARMS}
    reduced, ring, pairs, slow_reduced, slow_ring, slow_pairs = found.values()
    return {
        "loss": pairs.final / reduced.final,
        "loss to D-PSGD": pairs.final / ring.final,
        "equal": pairs.seconds_to(_TARGET) / reduced.seconds_to(_TARGET),
        "sooner": slow_reduced.seconds_to(_TARGET) / slow_pairs.seconds_to(_TARGET),
        "sooner than D-PSGD": slow_ring.seconds_to(_TARGET) / slow_pairs.seconds_to(_TARGET),
        "slowed": slow_pairs.seconds_to(_TARGET) / pairs.seconds_to(_TARGET),
    }


def _train(trial: ArmTrial, arm: str, rate: float) -> Result:
    system, fleet = _ARMS[arm]
    job = Teacher(SgdRecipe(rate), epochs=1, batch_size=_BATCH, samples=trial.size(38400, 7680), width=64)
    return trial.train(arm, job, find(system), _WORKERS, Simulator(_FAST, fleet, seed=trial.seed))


REPRODUCTION = Reproduction(
    name="adpsgd",
    systems=("adpsgd",),
    paper="Lian, Zhang, Zhang, Liu: Asynchronous Decentralized Parallel Stochastic Gradient Descent (ICML 2018, arXiv:1710.06952)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives, 8 workers in batches of 8, SGD at "
    "rates tuned for "
    "each arm on one grid, steps of 10 ms that vary by a fifth, in virtual time on 10 Gbit/s and 0.05 ms one way; 38,400 samples in all; "
    "seconds to a held-out loss of 1.0; equal workers, and one of them four times slower. The paper: ResNet-50 on ImageNet and CIFAR-10 "
    "with up to 128 GPUs.",
    baseline="allreduce, equal",
    stop="after a number of samples that was fixed beforehand; seconds are those until the target was first reached",
    machines="arms with a slow worker are compared with each other, and adpsgd's with its own on equal workers",
    notes="Every worker has an equal share of the samples, the slow one too: what is compared is when the target was reached, and "
    "not when all "
    "have used theirs up. D-PSGD is on a ring.",
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="It converges by epochs as all-reduce SGD does.",
            ours="held-out loss of the mean of all replicas over that of the all-reduce at equal samples, equal workers",
            figure="loss",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="It converges by epochs as D-PSGD does.",
            ours="held-out loss over that of D-PSGD at equal samples, equal workers",
            figure="loss to D-PSGD",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="With equal workers on a fast network it takes as long as the all-reduce.",
            ours="seconds to the target over those of the all-reduce, equal workers",
            figure="equal",
            unit="x",
            most=1.1,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Where a worker is slow it is many times faster than the all-reduce.",
            ours="seconds of the all-reduce to the target over those of AD-PSGD, one of 8 workers four times slower",
            figure="sooner",
            unit="x",
            least=2.0,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="So it is than D-PSGD, which waits for neighbours.",
            ours="seconds of D-PSGD to the target over those of AD-PSGD, one of 8 workers four times slower",
            figure="sooner than D-PSGD",
            unit="x",
            least=1.5,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="A slow worker does not slow it down.",
            ours="seconds to the target with a slow worker over those with equal ones",
            figure="slowed",
            unit="x",
            most=1.25,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(paper="Times on 128 GPUs.", untestable="There are no GPUs here."),
    ),
)
