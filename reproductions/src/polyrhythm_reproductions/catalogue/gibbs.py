"""HOGWILD!-Gibbs: marginals and correlations of spins that workers draw given late reads."""

from __future__ import annotations

from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.systems import find
from polyrhythm.workloads import Ising
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS = 4
_SEQUENTIAL = "sequential"
_SLACKS = (0, 2, 8)


def measure(trial: ArmTrial) -> Figures:
    """The errors of one worker, and of several with each slack."""
    sequential = _sample(trial, _SEQUENTIAL, 0, 1)
    late = {slack: _sample(trial, f"slack {slack}", slack, _WORKERS) for slack in _SLACKS}
    pairs = {slack: result.metric("pair_error") for slack, result in late.items()}
    return {
        "sequential": sequential.final,
        "marginals": max(late[slack].final for slack in (0, 2)),
        "pairs": pairs[2],
        "grows": pairs[8] / pairs[0],
    }


def _sample(trial: ArmTrial, arm: str, slack: int, workers: int) -> Result:
    job = Ising(chains=trial.size(32_768, 16_384), sweeps=trial.size(12, 5))
    return trial.train(arm, job, find("ssp", slack=slack), workers, Simulator(devices=Profile("a step of 1 ms", (1e-3,)), seed=trial.seed))


REPRODUCTION = Reproduction(
    name="gibbs",
    systems=("ssp",),
    paper="Daskalakis, Dikkala, Jayanti: HOGWILD!-Gibbs can be PanAccurate (NeurIPS 2018)",
    setting=(
        "An Ising model of 50 spins, each of which depends on its 4 neighbours on a ring so that Dobrushin's condition holds (their "
        f"influence adds up to at most 0.8), sampled by 1 worker, and by {_WORKERS} on a table with a slack of 0, 2 and 8 steps; a step of "
        "a worker draws up to 5 spins and takes 1 ms of virtual time. Every run has as many sweeps; errors are those of 32,768 independent "
        "chains."
    ),
    notes=(
        "The model differs from seed to seed. With so many chains a frequency is off by 0.003 in the standard deviation, and the largest "
        "of 50 by some 0.008; a correlation by 0.005. Workers own blocks of spins, so that no write is lost; in the paper they draw any "
        "spin of shared memory. Correlations of neighbours that two workers draw at the same time are the statistic that late reads change "
        "most. How many chains, spins a step and workers there are was chosen in trial runs with one model, before the bounds were set."
    ),
    baseline=_SEQUENTIAL,
    scaling=Scaling.WEAK,
    measure=measure,
    claims=(
        Claim(
            paper="Sequential Gibbs sampling has the model's marginals.",
            ours="largest error of the 50 probabilities, of one worker",
            figure="sequential",
            unit="1",
            most=0.02,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Under Dobrushin's condition asynchronous sampling is accurate for all spins at once.",
            ours="largest error of the 50 probabilities with a slack of 0 or 2 steps",
            figure="marginals",
            unit="1",
            most=0.02,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Statistics of bounded degree stay close to those of sequential sampling.",
            ours="mean error of the correlations of neighbours with a slack of 2 steps",
            figure="pairs",
            unit="1",
            most=0.03,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="The error grows with the delay.",
            ours="mean error of the correlations of neighbours with a slack of 8 steps over that without slack",
            figure="grows",
            unit="ratio",
            least=1.2,
        ),
    ),
)
