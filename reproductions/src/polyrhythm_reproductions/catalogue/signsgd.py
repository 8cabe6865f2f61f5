"""signSGD with a majority vote: one bit both ways."""

from __future__ import annotations

from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.adversaries import Adversaries
from polyrhythm_reproductions.jobs.recipes import AdamWRecipe, SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result
from polyrhythm_reproductions.volume import AT_16, beside

_WORKERS = 5
_RATES = {"SGD": (0.1, 0.3, 1.0), "Adam": (1e-3, 3e-3, 1e-2), "signsgd": (3e-4, 1e-3, 3e-3), "signum": (3e-4, 1e-3, 3e-3)}
_ADVERSARIES = 2
_VOTED, _AVERAGED = "signum, two adversaries", "SGD, two adversaries"


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, of three."""
    best = {arm: trial.best({rate: _run(trial, arm, rate) for rate in rates}) for arm, rates in _RATES.items()}
    for arm, other in ((_VOTED, "signum"), (_AVERAGED, "SGD")):  # they have the rates of the arms without adversaries
        trial.tuning_runs[arm] = trial.tuning_runs[other]
    return best


def _run(trial: ArmTrial, arm: str, rate: float, adversaries: int = 0, name: str = "") -> Result:
    recipe = AdamWRecipe(rate, weight_decay=0.0) if arm == "Adam" else SgdRecipe(rate)
    strategy = {"SGD": find("allreduce"), "Adam": find("allreduce"), "signsgd": find("signsgd"), "signum": find("signsgd", momentum=0.9)}
    job = Teacher(recipe, epochs=trial.size(4, 1))
    return trial.train(name or arm, Adversaries(job, adversaries) if adversaries else job, strategy[arm], _WORKERS)


def measure(trial: ArmTrial) -> Figures:
    """Losses at the same number of samples, each arm at its best rate; SGD and Signum also with two workers that invert their gradients."""
    sgd, adam, signs, signum = (_run(trial, arm, trial.tuned[arm]) for arm in _RATES)
    voted = _run(trial, "signum", trial.tuned["signum"], _ADVERSARIES, _VOTED)
    averaged = _run(trial, "SGD", trial.tuned["SGD"], _ADVERSARIES, _AVERAGED)
    return {
        "signsgd": signs.final / sgd.final,
        "signum": signum.final / adam.final,
        "adversary": _lost(sgd, averaged) - _lost(signum, voted),
        **beside(Teacher(), find("signsgd")),
    }


def _lost(honest: Result, inverted: Result) -> float:
    """Points of accuracy; all of them where it diverged."""
    return 100 * (honest.metric("accuracy") - (0.0 if inverted.arm.diverged else inverted.metric("accuracy")))


REPRODUCTION = Reproduction(
    name="signsgd",
    systems=("signsgd",),
    paper="Bernstein, Zhao, Azizzadenesheli, Anandkumar: signSGD with Majority Vote is Communication Efficient and Fault "
    "Tolerant (ICLR 2019)",
    setting="teacher (20,490 parameters), 5 workers in batches of 16, learning rates tuned over three values each (SGD without "
    "momentum). With adversaries, two of the five workers invert their gradients, and SGD and Signum take over the rates that were "
    "chosen for them without. The paper has ResNet-50 and up to 255 machines.",
    baseline="Adam",
    tune=tune,
    measure=measure,
    notes="Steps of one size do not become smaller near a minimum: with the constant rates of this experiment signs come closer "
    "to SGD or Adam "
    "or fall behind them by how long training lasts (Signum: 1.10 times the loss of Adam after 102 steps, 1.04 times after 410; "
    "signSGD: as SGD after 102, 1.15 times its loss after 410). Bytes are counted between 2 workers; with more, stripes are smaller and "
    "their headers count for more: 29.1 times fewer with the 5 workers of this experiment, 24.2 with 16.",
    claims=(
        Claim(
            paper="signSGD converges at the rate of SGD (ICML 2018).",
            ours="held-out loss over that of SGD without momentum at equal samples",
            figure="signsgd",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Signum matches the speed of convergence of Adam (ICML 2018).",
            ours="held-out loss over that of Adam at equal samples",
            figure="signum",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="The vote is robust where a minority of workers invert their gradients, more so than an average.",
            ours="accuracy that SGD with an average loses where two of five do, less what Signum with the vote loses",
            figure="adversary",
            unit="points",
            least=5.0,
        ),
        Claim(
            paper="Both directions are compressed 32 times.",
            ours="bytes of the dense exchange over those of the vote, which sends to owners of stripes and back, headers included, between "
            "2 workers",
            figure="ratio",
            beside=AT_16,
            unit="ratio",
            least=30.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="ResNet-50 on ImageNet takes 25 % less time on 15 p3.2xlarge machines.",
            untestable="It compares implementations on those machines, of which none is here.",
        ),
    ),
)
