"""Federated averaging: many local steps in few rounds, by some of the clients, each with its own data."""

from __future__ import annotations

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.own_classes import OwnClasses
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial, Result

_CLIENTS, _FRACTION, _TAU = 20, 0.25, 10
_SAMPLES, _BATCH = 4096, 20
_SGD, _AVG, _PROX, _ADAM = "FedSGD", "FedAvg", "FedProx", "FedAdam"
_ARMS: dict[str, Strategy] = {
    _SGD: find("fedavg", fraction=_FRACTION, period=1),
    _AVG: find("fedavg", fraction=_FRACTION, period=_TAU),
    _PROX: find("fedprox", fraction=_FRACTION, period=_TAU, proximal_weight=0.1),
    _ADAM: find("fedadam", fraction=_FRACTION, period=_TAU),
}


def tune(trial: ArmTrial) -> Figures:
    """The clients' learning rate of each arm, from the same grid."""
    grid = trial.size((0.03, 0.1, 0.3), (0.1,))
    return {arm: trial.best({rate: _train(trial, arm, rate) for rate in grid}) for arm in _ARMS}


def measure(trial: ArmTrial) -> Figures:
    """Rounds to a loss, final losses, and bytes of a round."""
    found = {arm: _train(trial, arm, trial.tuned[arm]) for arm in _ARMS}
    sgd, avg = found[_SGD], found[_AVG]
    return {
        "fewer rounds": _rounds(sgd, sgd.final, 1) / _rounds(avg, sgd.final, _TAU),
        "bytes": _bytes(trial, _FRACTION) / _bytes(trial, 1.0),
        "proximal": found[_PROX].final / avg.final,
        "adaptive": _rounds(avg, avg.final, _TAU) / _rounds(found[_ADAM], avg.final, _TAU),
    }


def _train(trial: ArmTrial, arm: str, rate: float) -> Result:
    epochs = trial.size(20, 5) if arm == _SGD else trial.size(60, 15)
    job = OwnClasses(SgdRecipe(rate), epochs, _BATCH, _SAMPLES)
    return trial.train(arm, job, _ARMS[arm], _CLIENTS, Simulator(network="lan", seed=trial.seed))


def _rounds(result: Result, loss: float, tau: int) -> float:
    """The rounds until the loss was first that low, up to rounding."""
    return max(1.0, result.steps_to(Target("loss", loss * (1 + 1e-6))) / tau)


def _bytes(trial: ArmTrial, fraction: float) -> float:
    """The bytes of a round."""
    strategy = find("fedavg", fraction=fraction, period=_TAU)
    on = Simulator(network=Instant(), seed=trial.seed)
    return _TAU * step_cost(timed(OwnClasses(SgdRecipe(0.1), 1, _BATCH, _SAMPLES), strategy, _CLIENTS, on), _TAU, 10 * _TAU).nbytes


REPRODUCTION = Reproduction(
    name="fedavg",
    systems=("fedavg", "fedprox", "fedadam"),
    paper="McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized Data "
    "(AISTATS 2017, arXiv:1602.05629); Li et al. (MLSys 2020); Reddi et al. (ICLR 2021)",
    setting="Softmax regression on 4,096 points of 10 classes that a random network gives, sorted by class over 20 clients, of which 5 are "
    "drawn for each round of 10 steps in batches of 20; SGD at a rate tuned for each arm on one grid.",
    baseline=_SGD,
    stop="after a number of rounds that was fixed beforehand: 200 of FedSGD, 60 of the others",
    notes="FedSGD is a round of one step. Rounds are known to 9 %, which is how far apart the moments are at which runs are evaluated.",
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="Local steps need 10 to 100 times fewer rounds than a step in each round.",
            ours="rounds of FedSGD to its final loss over those of FedAvg to the same",
            figure="fewer rounds",
            unit="x",
            least=10.0,
            changed="the bound, from at least 3 to at least 10, because the claim says 10 to 100",
        ),
        Claim(
            paper="A round costs what the clients send that are in it.",
            ours="bytes of a round with a quarter of the clients over those with all",
            figure="bytes",
            unit="ratio",
            least=0.24,
            most=0.3,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="FedProx: a proximal term helps where clients' data differ.",
            ours="final loss with mu = 0.1 over that of FedAvg",
            figure="proximal",
            unit="ratio",
            most=0.98,
            changed="the bound, from at most 1.02 to at most 0.98, because a loss that is no lower, or higher, is no help",
        ),
        Claim(
            paper="FedAdam: an adaptive optimizer at the server reaches the same in fewer rounds.",
            ours="rounds of FedAvg to its final loss over those of FedAdam to the same",
            figure="adaptive",
            unit="x",
            least=1.09,
            changed="the bound, from at least 1 to at least 1.09, because a ratio of 1 is not fewer, and rounds are known to 9 %",
        ),
        Claim(
            paper="FedProx lets slow clients do fewer steps, where FedAvg drops them.",
            untestable="All workers that are drawn take equally many steps here: those of their loops.",
        ),
    ),
)
