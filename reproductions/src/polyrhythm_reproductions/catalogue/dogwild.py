"""Dogwild!: training over datagrams that are lost, late or doubled."""

from __future__ import annotations

from polyrhythm.core.kernel.events import Undelivered
from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import DatagramFaults
from polyrhythm.hardware.network import Network
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _BATCH, _STEP, _RATE = 4, 16, 2e-3, 0.03
_NETWORK = Network.uniform("1 Gbit/s", "1 Gbit/s", "100 us")
_NO_LOSS, _ALONE = "dogwild", "1 worker"
_LATE = 5 * _STEP
_DEGREES = {"loss of 1 %": DatagramFaults(loss=0.01), "loss of 5 %": DatagramFaults(loss=0.05), "loss of 20 %": DatagramFaults(loss=0.2)}
_DOUBLED = {
    "weights doubled": DatagramFaults(duplicated=0.5, delay=_LATE, topic="weights"),
    "differences doubled": DatagramFaults(duplicated=0.5, delay=_LATE, topic="delta"),
}
_FAULTS = {**_DEGREES, **_DOUBLED}


def measure(trial: ArmTrial) -> Figures:
    """Accuracy under each fault, and how much of what others did an owner lost or applied twice."""
    alone = _train(trial, _ALONE)
    found = {arm: _train(trial, arm) for arm in (_NO_LOSS, *_FAULTS)}
    best = found[_NO_LOSS].metric("accuracy")
    lower = {f"lower, {arm}": 100 * (best - found[arm].metric("accuracy")) for arm in _FAULTS}
    wrong = {f"wrong, {arm}": 100 * _wrong(found[arm]) for arm in _FAULTS}
    return {**lower, **wrong, "speed-up": alone.seconds / found[_NO_LOSS].seconds}


def _train(trial: ArmTrial, arm: str) -> Result:
    job = Teacher(SgdRecipe(_RATE), epochs=trial.size(6, 3), batch_size=_BATCH, samples=trial.size(8192, 2048), width=64)
    faults = (_FAULTS[arm],) if arm in _FAULTS else ()
    runtime = Simulator(network=_NETWORK, devices=Profile("a step of 2 ms", (_STEP,)), faults=faults, seed=trial.seed)
    return trial.train(arm, job, find("dogwild"), 1 if arm == _ALONE else _WORKERS, runtime)


def _wrong(result: Result) -> float:
    """The norm of what owners did not apply, or applied twice, over that of all that others did to their weights."""
    ledger = [event for event in result.outcome.events if isinstance(event, Undelivered)]
    return float(sum(each.lost**2 for each in ledger) ** 0.5 / sum(each.produced**2 for each in ledger) ** 0.5)


REPRODUCTION = Reproduction(
    name="dogwild",
    systems=("dogwild",),
    paper="Noel, Osindero: Dogwild! - Distributed Hogwild for CPU & GPU (NIPS workshop on distributed machine learning, 2014)",
    setting=(
        f"A perceptron on points whose classes a random network gives, {_WORKERS} workers in batches of {_BATCH} whose steps take 2 "
        f"ms, over "
        "1 Gbit/s with 100 us in virtual time; SGD at a rate of 0.03 throughout. Then 1, 5 "
        "or 20 % of "
        "the datagrams are lost, or half of those with weights, or of those with differences, come again 10 ms later."
    ),
    notes=(
        "The paper gives no figures of loss; the bounds are ours. Its cluster trains on MNIST and ImageNet over Ethernet. What is "
        "wrong is a "
        "norm of sums: losses of both signs partly cancel."
    ),
    baseline=_NO_LOSS,
    scaling=Scaling.WEAK,
    measure=measure,
    machines="What becomes of datagrams is what the arms differ in; the network and the devices are the same.",
    claims=(
        Claim(
            paper="Lost packets are tolerated.",
            ours="points of held-out accuracy below the same run without faults, at a loss of 5 %",
            figure="lower, loss of 5 %",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="The more is lost, the more is missing, and training degrades gracefully.",
            ours="points of held-out accuracy below the same run without faults, at a loss of 20 %",
            figure="lower, loss of 20 %",
            unit="points",
            most=3.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="What is lost is accounted for.",
            ours="norm of what owners did not get of others' updates at a loss of 20 %, in % of that of all",
            figure="wrong, loss of 20 %",
            unit="%",
            least=5.0,
            most=40.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Messages with weights may come again late: they are idempotent.",
            ours="points of held-out accuracy below the same run without faults, where half of the weights come again late",
            figure="lower, weights doubled",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Of weights that come again nothing is applied twice.",
            ours="norm of what owners lost or applied twice where weights come again late, in % of that of all",
            figure="wrong, weights doubled",
            unit="%",
            most=0.01,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Messages with differences are not idempotent: what comes again counts again.",
            ours="norm of what owners applied twice where half of the differences come again late, in % of that of all",
            figure="wrong, differences doubled",
            unit="%",
            least=20.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Small clusters speed up linearly.",
            ours="seconds of 1 worker over those of 4, for as many samples",
            figure="speed-up",
            unit="ratio",
            least=3.2,
            efficiency=Efficiency.SYSTEM,
        ),
    ),
)
