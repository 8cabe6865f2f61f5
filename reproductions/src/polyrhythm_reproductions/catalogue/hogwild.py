"""Hogwild!: sparse steps on shared weights, without locks and under one."""

from __future__ import annotations

import tempfile
from dataclasses import replace

from polyrhythm.core.processes import Processes
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware.devices import Profile
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.sparse_logistic import SparseRegression
from polyrhythm_reproductions.jobs.step_locks import GlobalLock
from polyrhythm_reproductions.pace import steps_per_second
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_HOGWILD = "hogwild"
_ONE = "1 worker"
_WORKERS = {_ONE: 1, _HOGWILD: 2}
_STEP = 1e-3


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of one worker and of two, from the same grid."""
    grid = trial.size((0.03, 0.1, 0.3, 1.0), (0.1, 0.3))
    return {arm: trial.best({rate: _train(trial, arm, rate) for rate in grid}) for arm in _WORKERS}


def measure(trial: ArmTrial) -> Figures:
    """Quality in virtual time; then samples a second of real processes, and the writes that they lost."""
    found = {arm: _train(trial, arm, trial.tuned[arm]) for arm in _WORKERS}
    job = replace(SparseRegression(), epochs=1, samples=trial.size(8192, 1024))
    dense = replace(job, sparse=False)
    rates = {arm: steps_per_second(_run(trial, job, workers)) for arm, workers in _WORKERS.items()}
    with tempfile.NamedTemporaryFile() as file:
        locked = steps_per_second(_run(trial, replace(job, lock=GlobalLock(file.name)), 2))
    return {
        "worse": found[_HOGWILD].final / found[_ONE].final,
        "speed-up": rates[_HOGWILD] / rates[_ONE],
        "over the lock": rates[_HOGWILD] / locked,
        "more lost": 1e6 * (_lost(_run(trial, dense, 2)) - _lost(_run(trial, job, 2))),
    }


def _train(trial: ArmTrial, arm: str, rate: float) -> Result:
    job = SparseRegression(learning_rate=rate, epochs=trial.size(6, 2), samples=trial.size(8192, 1024))
    runtime = Simulator(devices=Profile("a step of 1 ms", (_STEP,)), seed=trial.seed)
    return trial.train(arm, job, find(_HOGWILD), _WORKERS[arm], runtime)


def _run(trial: ArmTrial, job: SparseRegression, workers: int) -> Outcome:
    return attempt(job, workers=workers, strategy=find(_HOGWILD), on=Processes(seed=trial.seed), seed=trial.seed).completed()


def _lost(outcome: Outcome) -> float:
    """The part of all writes of weights that was overwritten."""
    summary = outcome.summary
    assert summary.row_writes is not None
    assert summary.lost_writes is not None
    return summary.lost_writes / summary.row_writes


REPRODUCTION = Reproduction(
    name="hogwild",
    systems=(_HOGWILD,),
    paper="Niu, Recht, Ré, Wright: Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent (NIPS 2011)",
    setting=(
        "Logistic regression on samples that each have 20 of 2,000 features, in batches of 1, at a rate that decays by 0.9 after "
        "each epoch "
        "and was tuned for each arm on one grid. Quality in virtual time (a step takes 1 ms), at equal epochs; samples a second of "
        "1 and 2 "
        "real processes on this machine, with and without a lock that is held from the first read of a step to its last write."
    ),
    notes=(
        "What has no locks came out at 1.2 to 1.9 times one worker on two cores, so the bound of 1.4 is met by its median, not by "
        "every seed. The lock costs a factor of 2.1, not an order of magnitude: a step of Python and PyTorch takes far longer than "
        "the write that the lock protects, and there are two workers, of which one waits at most half of the time. The same holds for"
        " lost writes: two workers seldom write in the same microseconds, even where all weights are written."
    ),
    baseline=_ONE,
    scaling=Scaling.WEAK,
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="Running without locks converges as the serial scheme does.",
            ours="held-out loss of 2 workers over that of 1, after as many epochs",
            figure="worse",
            unit="ratio",
            most=1.02,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Near-linear speed-up with the number of processors on sparse problems.",
            ours="samples a second of 2 real processes over those of 1",
            figure="speed-up",
            unit="ratio",
            least=1.4,
            efficiency=Efficiency.REAL,
        ),
        Claim(
            paper="It outperforms schemes that lock by an order of magnitude.",
            ours="samples a second of 2 real processes without locks over those of 2 that share one lock",
            figure="over the lock",
            unit="ratio",
            least=10.0,
            efficiency=Efficiency.REAL,
            changed="the bound, from at least 3 to at least 10, because the claim says an order of magnitude",
        ),
        Claim(
            paper="Updates that are sparse rarely overwrite each other; dense ones do.",
            ours="writes lost of a million where every step writes all weights, less those where it writes its own",
            figure="more lost",
            unit="1",
            least=1.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="The speed-up is near-linear up to 10 processors.",
            untestable="This machine may have two.",
        ),
    ),
)
