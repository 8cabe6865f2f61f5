"""Rudra: staleness of n-softsync, rates that follow it, batches that follow the learners, and trees around the root."""

from __future__ import annotations

import math
from itertools import chain

from polyrhythm.consistency import SoftSync
from polyrhythm.core.kernel.events import Merged, Sent
from polyrhythm.core.kernel.names import server
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Jitter, Mixed
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Sum
from polyrhythm.systems import find
from polyrhythm.topology import Server
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result

_STEP = Profile("a step of 10 ms", (0.01,))
_EQUAL = Fleet((_STEP,), (Jitter(0.1),))
_UNEQUAL = Fleet((_STEP,), (Mixed((1.0, 1.0, 1.0, 0.25)), Jitter(0.1)))
_NETWORK = Network.uniform("10 Gbit/s", "10 Gbit/s", "0.05 ms")
_FAN_IN, _TOTAL = 5, 120
_RATES, _SMALL = (0.03, 0.1, 0.3, 1.0), 0.03
_HARD, _MEAN, _EACH = "hardsync", "1-softsync, uneven", "1-softsync, uneven, each gradient scaled"
_ARMS = {_HARD: (find("rudra", groups=0), _EQUAL), _MEAN: (find("rudra"), _UNEQUAL), _EACH: (find("softsync"), _UNEQUAL)}


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, with the learners and the machines that it will have, from the same grid."""
    grid, steps = trial.size(_RATES, (0.1, 0.3)), trial.size(60, 30)
    return {arm: trial.best({rate: _arm(trial, arm, rate, steps) for rate in grid}) for arm in _ARMS}


def measure(trial: ArmTrial) -> Figures:
    """Staleness by n, accuracies by rate and by batch, and the traffic of the root."""
    learners, steps, rate = _learners(trial), trial.size(100, 40), trial.tuned
    off, beyond = zip(*(_staleness(trial, n, steps) for n in (1, 4, learners)), strict=True)
    hard, each, mean = (100 * _arm(trial, arm, rate[arm], steps).metric("accuracy") for arm in (_HARD, _EACH, _MEAN))
    full = Strategy(name="softsync, rate not divided", consistency=SoftSync(learners), topology=Server(), merge=Sum())
    job = _job(rate[_HARD] * math.sqrt(learners), learners, steps)  # the rate that hardsync's steps have
    soft, fixed = (_accuracy(_run(trial, job, strategy, learners)) for strategy in (find("rudra", groups=learners), full))
    even, grown = ([_by_total(trial, number, kept) for number in (4, learners)] for kept in (True, False))
    flat, adv, star = (_coming(trial, *tree) for tree in (("rudra", 0), ("rudra-adv", _FAN_IN), ("rudra-adv-star", _FAN_IN)))
    return {
        "off n": max(off),
        "within 2 n": 1 - max(beyond),
        "divided": hard - soft,
        "not divided": hard - fixed,
        "product kept": abs(even[0] - even[1]),
        "product grown": grown[0] - grown[1],
        "scaled each": each - mean,
        "adv": flat / adv,
        "adv-star": flat / star,
    }


def _learners(trial: ArmTrial) -> int:
    return trial.size(30, 10)


def _arm(trial: ArmTrial, arm: str, rate: float, steps: int) -> Result:
    """Train one arm, at a rate that is tuned and compared."""
    learners = _learners(trial)
    strategy, machines = _ARMS[arm]
    return trial.train(arm, _job(rate, learners, steps), strategy, learners, _on(trial, machines))


def _run(trial: ArmTrial, job: Teacher, strategy: Strategy, learners: int, record_sends: bool = False) -> Attempt:
    """Run training that is no arm: at a rate that was tuned for another one, or only counted."""
    return attempt(job, workers=learners, strategy=strategy, on=_on(trial, _EQUAL, record_sends), seed=trial.seed)


def _accuracy(tried: Attempt) -> float:
    return 0.0 if tried.error is not None else 100 * tried.outcome.summary.final["accuracy"]


def _staleness(trial: ArmTrial, n: int, steps: int) -> tuple[float, float]:
    """The distance of the mean staleness from n, in percent of n, and the part of gradients that are staler than 2 n."""
    learners = _learners(trial)
    found = _run(trial, _job(_SMALL, learners, steps), find("rudra", groups=n), learners)
    late = list(chain.from_iterable(event.staleness for event in found.outcome.events if isinstance(event, Merged)))
    late = late[len(late) // 5 :]  # at the beginning everybody has the first weights
    return 100 * abs(sum(late) / len(late) / n - 1), sum(each > 2 * n for each in late) / len(late)


def _by_total(trial: ArmTrial, learners: int, kept: bool) -> float:
    """Accuracy after as many samples in all; the product of batch and learners is kept, or grows with the learners."""
    together = _TOTAL if kept else _TOTAL // 4 * learners
    strategy = find("rudra", samples=_TOTAL) if kept else find("rudra")
    samples = trial.size(38400, 7680)
    job = Teacher(SgdRecipe(trial.tuned[_HARD]), epochs=1, batch_size=together // learners, samples=samples, width=64)
    return _accuracy(_run(trial, job, strategy, learners))


def _coming(trial: ArmTrial, system: str, fan_in: int) -> int:
    """Bytes that come to the root."""
    learners = _learners(trial)
    strategy = find(system, group_size=fan_in) if fan_in else find(system)
    root = server(learners // fan_in if fan_in else 0)
    events = _run(trial, _job(_SMALL, learners, 20), strategy, learners, record_sends=True).outcome.events
    return sum(event.nbytes for event in events if isinstance(event, Sent) and event.to == root)


def _job(rate: float, learners: int, steps: int) -> Teacher:
    return Teacher(SgdRecipe(rate), epochs=1, batch_size=4, samples=4 * learners * steps, width=64)


def _on(trial: ArmTrial, devices: Fleet, record_sends: bool = False) -> Simulator:
    return Simulator(network=_NETWORK, devices=devices, seed=trial.seed, record_sends=record_sends)


REPRODUCTION = Reproduction(
    name="rudra",
    systems=("rudra", "rudra-adv", "rudra-adv-star", "softsync"),
    paper="Gupta, Zhang, Wang: Model Accuracy and Runtime Tradeoff in Distributed Deep Learning: A Systematic Study (ICDM 2016, "
    "arXiv:1509.04210); Zhang, Gupta, Lian, Liu: Staleness-aware Async-SGD (IJCAI 2016)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives; 30 learners (10 in quick runs) in batches of "
    "4, SGD at rates tuned on one grid, steps of 10 ms that vary by a tenth; trees with a fan-in of 5.",
    baseline=_HARD,
    machines="two arms are compared with each other alone, on learners of unequal speed",
    measure=measure,
    tune=tune,
    notes=(
        "The paper trains CNNs on CIFAR10 and ImageNet with up to 60 learners. λ-softsync takes the rate of hardsync's steps, which "
        "is the tuned one times the root of the number of learners, over its staleness, or as it is; in a first run with five seeds "
        "it took the tuned one, without the root, and was 25 points behind after as many samples. Product kept: 120 samples a step of"
        " all learners; grown: 30 samples a learner; both at the rate tuned for hardsync. These runs, those for staleness and those "
        "for bytes are no arms of their own: they are not tuned."
    ),
    claims=(
        Claim(
            paper="The mean staleness of n-softsync is n.",
            ours="how far the mean staleness is from n, for n of 1, 4 and the number of learners: the largest",
            figure="off n",
            unit="%",
            most=20.0,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Staleness rarely exceeds 2 n.",
            ours="the part of gradients that are at most 2 n stale: the least of these n",
            figure="within 2 n",
            unit="1",
            least=0.999,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="With the rate divided by the staleness, λ-softsync is as accurate as hardsync.",
            ours="accuracy of hardsync minus that of λ-softsync at its rate over n",
            figure="divided",
            unit="points",
            most=1.5,
            kind=ClaimKind.NO_WORSE,
            changed="what is run (the bound is the same): in a first run with five seeds both took the rate tuned for hardsync, and "
            "the difference was 25 points (not reproduced). Since then the rate is that times the root of the number of "
            "learners",
        ),
        Claim(
            paper="With the rate as it is, λ-softsync fails.",
            ours="accuracy of hardsync minus that of λ-softsync at its rate",
            figure="not divided",
            unit="points",
            least=5.0,
            changed="what is run (the bound is the same): since the claim above failed in a first run, the rate is that of hardsync "
            "times the root of the number of learners",
        ),
        Claim(
            paper="Accuracy is kept if the product of batch size and learners is.",
            ours="difference of accuracy of 4 learners and of all, 120 samples a step of all together",
            figure="product kept",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="With the batch of a learner as it is, accuracy falls with learners.",
            ours="accuracy of 4 learners minus that of all after as many samples, 30 samples a learner",
            figure="product grown",
            unit="points",
            least=1.0,
        ),
        Claim(
            paper="Rates for each gradient by its own staleness are no worse than by the mean (Zhang et al.).",
            ours="accuracy of 1-softsync with each gradient scaled minus that with the mean rate, one learner of 4 four times slower",
            figure="scaled each",
            unit="points",
            least=-0.5,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Aggregators relieve the root (Rudra-adv).",
            ours="bytes that come to the server over those that come to the root, fan-in 5",
            figure="adv",
            unit="x",
            least=_FAN_IN / 2,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="So they do with a broadcast tree (Rudra-adv*).",
            ours="as before, with weights that go down a tree",
            figure="adv-star",
            unit="x",
            least=_FAN_IN / 2,
            efficiency=Efficiency.EXACT,
        ),
    ),
)
